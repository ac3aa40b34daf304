-- In the order of their names, so that two runs say the same.
local function roles(obj)
  local names = {}
  for role, spec in pairs(spec_of(obj).mpiReplicaSpecs or {}) do
    if spec.template ~= nil then names[#names + 1] = role end
  end
  table.sort(names)
  return names
end

function GetComponents(obj)
  local list = {}
  for i, role in ipairs(roles(obj)) do
    local spec = spec_of(obj).mpiReplicaSpecs[role]
    local absent = string.lower(role) == "worker" and 0 or 1
    list[i] = component(role, number_or(spec.replicas, absent), spec.template)
  end
  return list
end

function InterpretHealth(obj)
  return training_health(obj) and #obj.status.conditions > 0
end

local function changed(condition)
  return condition.lastUpdateTime or condition.lastTransitionTime or ""
end

-- The newest of each type.
local function newest_conditions(items)
  local newest, order, list = {}, {}, {}
  for _, one in ipairs(statuses(items)) do
    for _, condition in ipairs(one.conditions or {}) do
      local name = condition.type or ""
      local known = newest[name]
      if known == nil then order[#order + 1] = name end
      if known == nil or changed(condition) > changed(known) then newest[name] = condition end
    end
  end
  for i, name in ipairs(order) do list[i] = newest[name] end
  return list
end

function AggregateStatus(obj, items)
  if is_nowhere(items) then return obj end
  if only(items) then
    obj.status = only(items)
    return obj
  end
  local status = { replicaStatuses = outcomes(items), conditions = newest_conditions(items) }
  for _, one in ipairs(statuses(items)) do
    status.startTime = earlier(status.startTime, one.startTime)
    status.completionTime = later(status.completionTime, one.completionTime)
    status.lastReconcileTime = later(status.lastReconcileTime, one.lastReconcileTime)
  end
  obj.status = status
  return obj
end

function ReflectStatus(obj)
  local status = picked(obj.status, { "conditions", "startTime", "completionTime", "lastReconcileTime" })
  status.replicaStatuses = {}
  for role, counts in pairs((obj.status or {}).replicaStatuses or {}) do
    status.replicaStatuses[role] = picked(counts, { "active", "succeeded", "failed", "selector" })
  end
  return status
end

function GetDependencies(obj)
  local list, _, add_all = references(obj)
  for _, role in ipairs(roles(obj)) do add_all(pod_dependencies(spec_of(obj).mpiReplicaSpecs[role].template, obj)) end
  return list
end
