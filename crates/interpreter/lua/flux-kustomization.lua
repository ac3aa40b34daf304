local FIELDS = { "conditions", "observedGeneration", "lastAppliedRevision", "lastAttemptedRevision" }

function InterpretHealth(obj)
  return ready_because(obj, "ReconciliationSucceeded")
end

function AggregateStatus(obj, items)
  local status, revisions = start(obj), { "lastAppliedRevision", "lastAttemptedRevision" }
  if is_nowhere(items) then
    for _, field in ipairs(revisions) do status[field] = "" end
  end
  last(status, items, revisions)
  status.conditions = merged_conditions(items)
  observe(obj, items)
  return obj
end

function Retain(desired, observed)
  return keep_suspend(desired, observed)
end

function ReflectStatus(obj)
  return reflected(obj, FIELDS)
end

function GetDependencies(obj)
  local list, add = references(obj)
  local spec = spec_of(obj)
  if spec.decryption and spec.decryption.secretRef then add("Secret", spec.decryption.secretRef.name) end
  if spec.kubeConfig and spec.kubeConfig.secretRef then add("Secret", spec.kubeConfig.secretRef.name) end
  add("ServiceAccount", spec.serviceAccountName)
  return list
end
