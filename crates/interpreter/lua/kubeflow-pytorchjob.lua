local ROLES = { "Master", "Worker" }

function GetComponents(obj)
  local list, specs = {}, spec_of(obj).pytorchReplicaSpecs or {}
  for _, role in ipairs(ROLES) do
    local spec = specs[role]
    if spec ~= nil then list[#list + 1] = component(string.lower(role), number_or(spec.replicas, 1), spec.template) end
  end
  return list
end

-- True if it is true in any member; with the latest times.
local function united(items, name, message)
  local found, holds = nil, false
  for _, one in ipairs(items or {}) do
    local condition = condition_of(one, name)
    if condition ~= nil then
      found = found or {}
      found.lastTransitionTime = later(found.lastTransitionTime, condition.lastTransitionTime)
      found.lastUpdateTime = later(found.lastUpdateTime, condition.lastUpdateTime)
      holds = holds or condition.status == "True"
    end
  end
  if found == nil then return nil end
  found.type, found.status = name, holds and "True" or "False"
  found.reason, found.message = "PyTorchJob" .. name, message
  return found
end

function AggregateStatus(obj, items)
  local status, failed, conditions = start(obj), clusters_ended(items, "Failed"), {}
  training_times(status, items)
  status.replicaStatuses, status.conditions = outcomes(items, ROLES), conditions
  conditions[1] = united(items, "Created", "PyTorchJob is created.")
  conditions[#conditions + 1] = united(items, "Running", "PyTorchJob is running.")
  if #failed > 0 then
    local message = "PyTorchJob executed failed in member clusters: " .. joined(failed)
    conditions[#conditions + 1] = united(items, "Failed", message)
  elseif all_succeeded(items) then
    conditions[#conditions + 1] = united(items, "Succeeded", "PyTorchJob is successfully completed.")
  end
  obj.status = dropped_zeros(status)
  return obj
end

function InterpretHealth(obj)
  return training_health(obj)
end

function GetDependencies(obj)
  local list, _, add_all = references(obj)
  for _, role in ipairs(ROLES) do
    local spec = (spec_of(obj).pytorchReplicaSpecs or {})[role]
    if spec ~= nil then add_all(pod_dependencies(spec.template, obj)) end
  end
  return list
end
