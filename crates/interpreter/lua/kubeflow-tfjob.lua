local ROLES = { "PS", "Worker", "Chief", "Master", "Evaluator" }

function GetComponents(obj)
  local list, specs = {}, spec_of(obj).tfReplicaSpecs or {}
  for _, role in ipairs(ROLES) do
    local spec = specs[role]
    if spec ~= nil then list[#list + 1] = component(string.lower(role), number_or(spec.replicas, 1), spec.template) end
  end
  return list
end

function AggregateStatus(obj, items)
  local status, conditions, failed = start(obj), {}, clusters_ended(items, "Failed")
  training_times(status, items)
  status.replicaStatuses = outcomes(items, ROLES)
  if #failed > 0 then
    local message = "TFJob executed failed in member clusters: " .. joined(failed)
    conditions[1] = own_condition(obj, "Failed", "TFJobFailed", message)
  elseif all_succeeded(items) then
    conditions[1] = own_condition(obj, "Succeeded", "Completed", "TFJob completed successfully")
  end
  status.conditions = conditions
  obj.status = dropped_zeros(status)
  return obj
end

function InterpretHealth(obj)
  return training_health(obj)
end

function GetDependencies(obj)
  local list, _, add_all = references(obj)
  for _, role in ipairs(ROLES) do
    local spec = (spec_of(obj).tfReplicaSpecs or {})[role]
    if spec ~= nil then add_all(pod_dependencies(spec.template, obj)) end
  end
  return list
end
