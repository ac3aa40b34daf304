local ROLES = { "PS", "Worker", "Chief", "Master", "Evaluator" }
local REASONS = { Created = "TFJobCreated", Running = "TFJobRunning", Succeeded = "Completed" }

function GetComponents(obj)
  local list, specs = {}, obj.spec.tfReplicaSpecs or {}
  for _, role in ipairs(ROLES) do
    local spec = specs[role]
    if spec ~= nil then list[#list + 1] = component(string.lower(role), spec.replicas or 1, spec.template) end
  end
  return list
end

function AggregateStatus(obj, items)
  obj.status = training_status(items, "TFJobFailed", REASONS, false)
  return obj
end

function InterpretHealth(obj)
  return training_health(obj)
end

function GetDependencies(obj)
  local list, _, add_all = references(obj)
  for _, role in ipairs(ROLES) do
    local spec = (obj.spec.tfReplicaSpecs or {})[role]
    if spec ~= nil then add_all(pod_dependencies(spec.template, obj)) end
  end
  return list
end
