local ROLES = { "Master", "Worker" }

-- Conditions over all members, in the order in which they come about.
local WORDS = {
  { name = "Created", message = "PyTorchJob is created." },
  { name = "Running", message = "PyTorchJob is running." },
  { name = "Succeeded", message = "PyTorchJob is successfully completed.", everywhere = true },
}

function GetComponents(obj)
  local list, specs = {}, obj.spec.pytorchReplicaSpecs or {}
  for _, role in ipairs(ROLES) do
    local spec = specs[role]
    if spec ~= nil then list[#list + 1] = component(string.lower(role), number_or(spec.replicas, 1), spec.template) end
  end
  return list
end

-- Holds where any member says so, or, if that is asked, where all do; as of the latest of them.
local function united(items, word)
  local found, holding = nil, 0
  for _, one in ipairs(items or {}) do
    local condition = condition_of(one, word.name)
    if condition ~= nil then
      found = found or {}
      found.lastTransitionTime = later(found.lastTransitionTime, condition.lastTransitionTime)
      found.lastUpdateTime = later(found.lastUpdateTime, condition.lastUpdateTime)
      if condition.status == "True" then holding = holding + 1 end
    end
  end
  if found == nil or (word.everywhere and holding < #items) then return nil end
  found.type, found.status = word.name, holding > 0 and "True" or "False"
  found.reason, found.message = "PyTorchJob" .. word.name, word.message
  return found
end

function AggregateStatus(obj, items)
  local status, failed = start(obj), clusters_with(items, "Failed")
  training_times(status, items)
  status.replicaStatuses, status.conditions = outcomes(items, ROLES), {}
  for _, word in ipairs(WORDS) do status.conditions[#status.conditions + 1] = united(items, word) end
  if #failed > 0 then
    local message = "PyTorchJob executed failed in member clusters: " .. joined(failed)
    status.conditions[#status.conditions + 1] = own_condition("Failed", "PyTorchJobFailed", message)
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
    local spec = (obj.spec.pytorchReplicaSpecs or {})[role]
    if spec ~= nil then add_all(pod_dependencies(spec.template, obj)) end
  end
  return list
end
