local COUNTERS = {
  "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady", "updatedNumberScheduled",
  "numberAvailable", "numberUnavailable",
}

function AggregateStatus(obj, items)
  local status = start(obj)
  sum(status, items, COUNTERS)
  -- A string in the CRD, which requires it.
  status.daemonSetHash = ""
  last(status, items, { "daemonSetHash" })
  observe(obj, items)
  return obj
end

function ReflectStatus(obj)
  local status = reflected(obj, COUNTERS)
  status.daemonSetHash = (obj.status or {}).daemonSetHash
  status.observedGeneration = (obj.status or {}).observedGeneration
  return status
end

function InterpretHealth(obj)
  local status = obj.status or {}
  if (status.observedGeneration or 0) ~= (obj.metadata.generation or 0) then return false end
  local updated = status.updatedNumberScheduled or 0
  return updated >= (status.desiredNumberScheduled or 0) and (status.numberAvailable or 0) >= updated
end

function GetDependencies(obj)
  return pod_dependencies(obj.spec.template, obj)
end
