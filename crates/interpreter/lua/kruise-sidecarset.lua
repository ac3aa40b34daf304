local COUNTERS = { "matchedPods", "updatedPods", "readyPods" }

function GetReplicas()
  return 0, nil
end

function AggregateStatus(obj, items)
  local status = {}
  sum(status, items, COUNTERS)
  return { apiVersion = obj.apiVersion, kind = obj.kind, metadata = obj.metadata, status = status }
end

function ReflectStatus(obj)
  if obj.status == nil then return {} end
  local status = {}
  for _, field in ipairs(COUNTERS) do status[field] = obj.status[field] or 0 end
  return status
end

function Retain(desired)
  return desired
end

function InterpretHealth(obj)
  local status = obj.status
  if status == nil then return false end
  return (status.matchedPods or 0) == 0 or (status.updatedPods or 0) == status.matchedPods
end

-- A SidecarSet has no namespace of its own; what it names is looked for where the pods are, which nobody can know here.
function GetDependencies(obj)
  local list, _, add_all = references(obj)
  local spec = obj.spec or {}
  add_all(pod_dependencies({ spec = {
    containers = spec.containers, initContainers = spec.initContainers, volumes = spec.volumes,
  } }, obj))
  return list
end
