local FIELDS = { "artifact", "conditions", "observedGeneration", "observedIgnore", "url" }

function InterpretHealth(obj)
  return ready_because(obj, "Succeeded")
end

function AggregateStatus(obj, items)
  local status = start(obj)
  last(status, items, { "artifact", "url" })
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
  if spec.secretRef then add("Secret", spec.secretRef.name) end
  return list
end
