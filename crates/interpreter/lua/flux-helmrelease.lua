local FIELDS = { "conditions", "observedGeneration", "lastAppliedRevision", "lastAttemptedRevision", "lastAttemptedValuesChecksum", "helmChart", "lastReleaseRevision", "failures", "installFailures", "upgradeFailures" }

function InterpretHealth(obj)
  return ready_because(obj, "ReconciliationSucceeded")
end

function AggregateStatus(obj, items)
  local status = start(obj)
  last(status, items, { "lastAppliedRevision", "lastAttemptedRevision", "lastAttemptedValuesChecksum", "helmChart", "lastReleaseRevision" })
  -- What members report now: added onto the old value it would grow with every pass.
  sum(status, items, { "failures", "installFailures", "upgradeFailures" })
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
  local spec = obj.spec
  for _, from in ipairs(spec.valuesFrom or {}) do
    if from.kind == "Secret" or from.kind == "ConfigMap" then add(from.kind, from.name) end
  end
  local verify = spec.chart and spec.chart.spec and spec.chart.spec.verify
  if verify and verify.secretRef then add("Secret", verify.secretRef.name) end
  if spec.kubeConfig and spec.kubeConfig.secretRef then add("Secret", spec.kubeConfig.secretRef.name) end
  add("ServiceAccount", spec.serviceAccountName)
  return list
end
