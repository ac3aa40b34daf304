-- Workloads of Kruise with replicas, by default one. The COUNTERS and NAMES of their status stand in front.
function GetReplicas(obj)
  return obj.spec.replicas or 1, kube.accuratePodRequirements(obj.spec.template)
end

function ReviseReplica(obj, replicas)
  obj.spec.replicas = replicas
  return obj
end

function AggregateStatus(obj, items)
  local status = start(obj)
  sum(status, items, COUNTERS)
  if ALWAYS_NAMED or not is_nowhere(items) then
    for _, name in ipairs(NAMES) do status[name] = "" end
  end
  last(status, items, NAMES)
  observe(obj, items)
  return obj
end

function ReflectStatus(obj)
  local status = reflected(obj, COUNTERS)
  for name, value in pairs(picked(obj.status, NAMES)) do status[name] = value end
  status.observedGeneration = (obj.status or {}).observedGeneration
  return status
end

function InterpretHealth(obj)
  return rolled_out(obj)
end

function GetDependencies(obj)
  return pod_dependencies(obj.spec.template, obj)
end
