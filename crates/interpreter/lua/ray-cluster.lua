function GetComponents(obj)
  return ray_components(spec_of(obj))
end

function InterpretHealth(obj)
  return is_true(obj, "HeadPodReady") and is_true(obj, "RayClusterProvisioned")
    and not is_true(obj, "RayClusterReplicaFailure")
end

function AggregateStatus(obj, items)
  if is_nowhere(items) then return obj end
  obj.spec = nil
  if only(items) then
    obj.status = only(items)
    return obj
  end
  local status, devices = { conditions = {}, desiredCPU = "0", desiredMemory = "0" }, { desiredGPU = 0, desiredTPU = 0 }
  sum(status, items, {
    "desiredWorkerReplicas", "availableWorkerReplicas", "readyWorkerReplicas", "minWorkerReplicas", "maxWorkerReplicas",
  })
  for _, one in ipairs(statuses(items)) do
    for _, field in ipairs { "desiredCPU", "desiredMemory" } do
      local amount = one[field]
      if amount ~= nil and amount ~= "" then status[field] = kube.resourceAdd(status[field], tostring(amount)) end
    end
    for field, total in pairs(devices) do devices[field] = total + (tonumber(one[field]) or 0) end
    for _, condition in ipairs(one.conditions or {}) do status.conditions[#status.conditions + 1] = condition end
    status.lastUpdateTime = later(status.lastUpdateTime, one.lastUpdateTime)
    if status.state == nil and one.state ~= nil then
      status.state, status.stateTransitionTimes = one.state, one.stateTransitionTimes
    end
    for _, field in ipairs { "endpoints", "head" } do
      if status[field] == nil then status[field] = one[field] end
    end
  end
  for field, total in pairs(devices) do status[field] = tostring(total) end
  obj.status = status
  return obj
end
