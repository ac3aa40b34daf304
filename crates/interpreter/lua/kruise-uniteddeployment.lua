local COUNTERS = { "replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas" }

-- The pods of its workloads; a plain pod template is taken, too.
local function pods(obj)
  local template = obj.spec.template or {}
  for _, name in ipairs { "statefulSetTemplate", "advancedStatefulSetTemplate", "cloneSetTemplate", "deploymentTemplate" } do
    local inner = template[name]
    if inner ~= nil then return (inner.spec or {}).template end
  end
  if template.spec ~= nil then return template end
  return nil
end

function GetReplicas(obj)
  local template = pods(obj)
  return obj.spec.replicas or 1, template and kube.accuratePodRequirements(template)
end

function ReviseReplica(obj, replicas)
  obj.spec.replicas = replicas
  return obj
end

function AggregateStatus(obj, items)
  local status = start(obj)
  sum(status, items, COUNTERS)
  last(status, items, { "currentRevision", "updateStatus", "subsetReplicas" })
  -- The CRD requires it.
  status.currentRevision = status.currentRevision or ""
  local by_type, order = {}, {}
  for _, one in ipairs(statuses(items)) do
    for _, condition in ipairs(one.conditions or {}) do
      local name = condition.type or ""
      if by_type[name] == nil then order[#order + 1] = name end
      by_type[name] = condition
    end
  end
  if #order > 0 then status.conditions = {} end
  for i, name in ipairs(order) do status.conditions[i] = by_type[name] end
  observe(obj, items)
  return obj
end

function ReflectStatus(obj)
  local status = reflected(obj, COUNTERS)
  local more = picked(obj.status, { "conditions", "observedGeneration", "currentRevision", "updateStatus", "subsetReplicas" })
  for name, value in pairs(more) do status[name] = value end
  return status
end

function InterpretHealth(obj)
  return rolled_out(obj)
end

function GetDependencies(obj)
  return pod_dependencies(pods(obj), obj)
end
