function GetComponents(obj)
  return ray_components(obj.spec)
end

function InterpretHealth(obj)
  return is_true(obj, "HeadPodReady") and is_true(obj, "RayClusterProvisioned")
    and not is_true(obj, "RayClusterReplicaFailure")
end

function AggregateStatus(obj, items)
  obj.spec = nil
  if only(items) then
    obj.status = only(items)
    return obj
  end
  local status = { conditions = {} }
  sum(status, items, {
    "desiredWorkerReplicas", "availableWorkerReplicas", "readyWorkerReplicas", "minWorkerReplicas", "maxWorkerReplicas",
  })
  for _, one in ipairs(statuses(items)) do
    for _, field in ipairs { "desiredCPU", "desiredMemory", "desiredGPU", "desiredTPU" } do
      if one[field] ~= nil then status[field] = kube.resourceAdd(status[field], tostring(one[field])) end
    end
    for _, condition in ipairs(one.conditions or {}) do status.conditions[#status.conditions + 1] = condition end
    for _, field in ipairs { "endpoints", "head", "state" } do
      if status[field] == nil then status[field] = one[field] end
    end
  end
  obj.status = status
  return obj
end
