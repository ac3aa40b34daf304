local FIELDS = { "artifact", "conditions", "observedGeneration", "observedChartName", "observedSourceArtifactRevision", "url" }

function InterpretHealth(obj)
  return ready_because(obj, "Succeeded", "ChartPullSucceeded")
end

function AggregateStatus(obj, items)
  local status = start(obj)
  last(status, items, { "artifact", "url", "observedChartName", "observedSourceArtifactRevision" })
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
  if spec.verify and spec.verify.secretRef then add("Secret", spec.verify.secretRef.name) end
  return list
end
