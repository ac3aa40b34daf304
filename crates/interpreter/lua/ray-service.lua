local ORDER = { "DEPLOY_FAILED", "UNHEALTHY", "DELETING", "NOT_STARTED", "DEPLOYING", "RUNNING" }

local function groups(obj)
  return (obj.spec.rayClusterConfig or {}).workerGroupSpecs or {}
end

function GetReplicas(obj)
  local replicas, most = 1, nil
  for _, group in ipairs(groups(obj)) do replicas = replicas + (group.replicas or 0) end
  for _, template in ipairs(ray_pods(obj.spec.rayClusterConfig or {})) do
    local found = kube.accuratePodRequirements(template)
    if found ~= nil and found.resourceRequest ~= nil then
      most = most or {}
      for _, name in ipairs { "cpu", "memory" } do
        local amount = found.resourceRequest[name]
        if kube.getResourceQuantity(amount) > kube.getResourceQuantity(most[name]) then most[name] = amount end
      end
    end
  end
  return replicas, most and { resourceRequest = most }
end

function ReviseReplica(obj, replicas)
  local list, total = groups(obj), 0
  local left = math.max(replicas - 1, 0)
  local workers = left
  for _, group in ipairs(list) do total = total + (group.replicas or 0) end
  for i, group in ipairs(list) do
    local share = 0
    if total > 0 then share = math.floor(workers * (group.replicas or 0) / total) end
    if i == #list then share = left end
    group.replicas = share
    left = left - share
  end
  return obj
end

function InterpretHealth(obj)
  return is_true(obj, "Ready")
end

function AggregateStatus(obj, items)
  obj.spec = nil
  if only(items) then
    obj.status = only(items)
    return obj
  end
  local rank, status = {}, { conditions = {}, activeServiceStatus = {} }
  for i, name in ipairs(ORDER) do rank[name] = i end
  sum(status, items, { "numServeEndpoints" })
  local applications = {}
  for _, one in ipairs(statuses(items)) do
    for _, condition in ipairs(one.conditions or {}) do status.conditions[#status.conditions + 1] = condition end
    for name, app in pairs((one.activeServiceStatus or {}).applicationStatuses or {}) do
      local known = applications[name]
      if known == nil or (rank[app.status] or 99) < (rank[known.status] or 99) then applications[name] = app end
    end
    status.serviceStatus = one.serviceStatus or status.serviceStatus
  end
  status.activeServiceStatus.applicationStatuses = applications
  obj.status = status
  return obj
end

function GetDependencies(obj)
  local list, _, add_all = references(obj)
  for _, template in ipairs(ray_pods(obj.spec.rayClusterConfig or {})) do add_all(pod_dependencies(template, obj)) end
  return list
end
