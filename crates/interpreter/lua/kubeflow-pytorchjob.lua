local REASONS = { Created = "PyTorchJobCreated", Running = "PyTorchJobRunning", Succeeded = "PyTorchJobSucceeded" }

function GetComponents(obj)
  local list, specs = {}, obj.spec.pytorchReplicaSpecs or {}
  for _, role in ipairs { "Master", "Worker" } do
    local spec = specs[role]
    if spec ~= nil then list[#list + 1] = component(string.lower(role), spec.replicas or 1, spec.template) end
  end
  return list
end

function AggregateStatus(obj, items)
  obj.status = training_status(items, "PyTorchJobFailed", REASONS, false)
  return obj
end

function InterpretHealth(obj)
  return training_health(obj)
end

function GetDependencies(obj)
  local list, _, add_all = references(obj)
  for _, role in ipairs { "Master", "Worker" } do
    local spec = (obj.spec.pytorchReplicaSpecs or {})[role]
    if spec ~= nil then add_all(pod_dependencies(spec.template, obj)) end
  end
  return list
end
