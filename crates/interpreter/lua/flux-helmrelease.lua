local FIELDS = { "conditions", "observedGeneration", "lastAppliedRevision", "lastAttemptedRevision", "lastAttemptedValuesChecksum", "helmChart", "lastReleaseRevision", "failures", "installFailures", "upgradeFailures" }
local LAST = {
  "lastAppliedRevision", "lastAttemptedRevision", "lastAttemptedValuesChecksum", "helmChart", "lastReleaseRevision",
}

function InterpretHealth(obj)
  return ready_because(obj, "ReconciliationSucceeded")
end

function AggregateStatus(obj, items)
  local status, failures = start(obj), { "failures", "upgradeFailures", "installFailures" }
  if is_nowhere(items) then
    for _, field in ipairs(LAST) do status[field] = "" end
    -- A number in the CRD.
    status.lastReleaseRevision = nil
    sum(status, items, failures)
  end
  last(status, items, LAST)
  -- What members report now, if any does: added onto the old value it would grow with every pass.
  for _, field in ipairs(failures) do
    for _, one in ipairs(statuses(items)) do
      if one[field] ~= nil then sum(status, items, { field }) end
    end
  end
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
  for _, from in ipairs(spec.valuesFrom or {}) do
    if from.kind == "Secret" or from.kind == "ConfigMap" then add(from.kind, from.name) end
  end
  local verify = spec.chart and spec.chart.spec and spec.chart.spec.verify
  if verify and verify.secretRef then add("Secret", verify.secretRef.name) end
  if spec.kubeConfig and spec.kubeConfig.secretRef then add("Secret", spec.kubeConfig.secretRef.name) end
  add("ServiceAccount", spec.serviceAccountName)
  return list
end
