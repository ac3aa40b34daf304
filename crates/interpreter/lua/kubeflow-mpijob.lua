local function roles(obj)
  local names = {}
  for role in pairs(obj.spec.mpiReplicaSpecs or {}) do names[#names + 1] = role end
  table.sort(names)
  return names
end

function GetComponents(obj)
  local list = {}
  for i, role in ipairs(roles(obj)) do
    local spec, absent = obj.spec.mpiReplicaSpecs[role], 1
    if role == "Worker" then absent = 0 end
    list[i] = component(string.lower(role), spec.replicas or absent, spec.template)
  end
  return list
end

function InterpretHealth(obj)
  return training_health(obj)
end

function AggregateStatus(obj, items)
  if only(items) then
    obj.status = only(items)
    return obj
  end
  local status = training_status(items, "MPIJobFailed", {}, false)
  for _, one in ipairs(statuses(items)) do status.completionTime = later(status.completionTime, one.completionTime) end
  status.conditions = latest_conditions(items)
  obj.status = status
  return obj
end

function ReflectStatus(obj)
  return picked(obj.status, { "replicaStatuses", "conditions", "startTime", "completionTime", "lastReconcileTime" })
end
