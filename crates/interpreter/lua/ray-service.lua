local ORDER = { "DEPLOY_FAILED", "UNHEALTHY", "DELETING", "DEPLOYING", "NOT_STARTED", "RUNNING" }

local function groups(obj)
  return (spec_of(obj).rayClusterConfig or {}).workerGroupSpecs or {}
end

-- One pod for the head, and those of the workers; where they go is where the head may go.
function GetReplicas(obj)
  local head = ((spec_of(obj).rayClusterConfig or {}).headGroupSpec or {}).template
  if head == nil then return 0, nil end
  local replicas, found, most = 1, kube.accuratePodRequirements(head) or {}, {}
  for _, group in ipairs(groups(obj)) do replicas = replicas + (group.replicas or 0) end
  for _, template in ipairs(ray_pods(spec_of(obj).rayClusterConfig)) do
    local request = (kube.accuratePodRequirements(template) or {}).resourceRequest or {}
    for _, name in ipairs { "cpu", "memory" } do
      if request[name] ~= nil and kube.getResourceQuantity(request[name]) > kube.getResourceQuantity(most[name]) then
        most[name] = request[name]
      end
    end
  end
  found.resourceRequest = found.resourceRequest or {}
  for name, amount in pairs(most) do found.resourceRequest[name] = amount end
  if next(found.resourceRequest) == nil then found.resourceRequest = nil end
  if next(found) == nil then return replicas, nil end
  found.namespace = namespace_of(obj)
  return replicas, found
end

-- In proportion to what the groups have, or evenly where none has any; the last takes what is left.
function ReviseReplica(obj, replicas)
  local list, total = groups(obj), 0
  local workers = math.max(replicas - 1, 0)
  local left = workers
  for _, group in ipairs(list) do total = total + (group.replicas or 0) end
  for i, group in ipairs(list) do
    local share = left
    if i < #list and total > 0 then share = math.floor(workers * (group.replicas or 0) / total + 0.5) end
    if i < #list and total == 0 then share = math.floor((workers + #list - i) / #list) end
    share = math.min(share, left)
    group.replicas = share
    left = left - share
  end
  return obj
end

function InterpretHealth(obj)
  return is_true(obj, "Ready")
end

function AggregateStatus(obj, items)
  if is_nowhere(items) then return obj end
  obj.spec = nil
  if only(items) then
    obj.status = only(items)
    return obj
  end
  local rank, status = ranks(ORDER), { conditions = {}, observedGeneration = 0, serviceStatus = "Running" }
  sum(status, items, { "numServeEndpoints" })
  local applications = {}
  for _, one in ipairs(statuses(items)) do
    for _, condition in ipairs(one.conditions or {}) do status.conditions[#status.conditions + 1] = condition end
    for name, app in pairs((one.activeServiceStatus or {}).applicationStatuses or {}) do
      local known = applications[name]
      if known == nil or (rank[app.status] or 99) < (rank[known.status] or 99) then applications[name] = app end
    end
    status.lastUpdateTime = later(status.lastUpdateTime, one.lastUpdateTime)
    status.observedGeneration = math.max(status.observedGeneration, one.observedGeneration or 0)
    -- A service that runs nowhere says nothing here.
    if one.serviceStatus == "" then status.serviceStatus = "" end
    status.activeServiceStatus = status.activeServiceStatus or one.activeServiceStatus
    status.pendingServiceStatus = status.pendingServiceStatus or one.pendingServiceStatus
  end
  if status.activeServiceStatus ~= nil then status.activeServiceStatus.applicationStatuses = applications end
  obj.status = status
  return obj
end

function GetDependencies(obj)
  local list, _, add_all = references(obj)
  for _, template in ipairs(ray_pods(spec_of(obj).rayClusterConfig or {})) do add_all(pod_dependencies(template, obj)) end
  return list
end
