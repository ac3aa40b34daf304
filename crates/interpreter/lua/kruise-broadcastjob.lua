function GetReplicas(obj)
  return tonumber(obj.spec.parallelism) or 1, kube.accuratePodRequirements(obj.spec.template)
end

function ReviseReplica(obj, replicas)
  obj.spec.parallelism = replicas
  return obj
end

function InterpretHealth(obj)
  local status = obj.status or {}
  return (status.desired or 0) ~= 0 and (status.failed or 0) == 0
    and ((status.succeeded or 0) ~= 0 or (status.active or 0) ~= 0)
end

-- How the job ended in one member: the first condition counts.
local function ended_as(status)
  for _, condition in ipairs((status or {}).conditions or {}) do
    local is_end = condition.type == "Complete" or condition.type == "Failed"
    if is_end and condition.status == "True" then return condition.type end
  end
  return nil
end

function AggregateStatus(obj, items)
  if is_nowhere(items) then return obj end
  local status = start(obj)
  status.phase = ""
  sum(status, items, { "active", "succeeded", "failed", "desired" })
  last(status, items, { "phase" })
  local failed, completed = {}, 0
  for _, item in ipairs(items or {}) do
    local how = ended_as(item.status)
    if how == "Failed" then failed[#failed + 1] = item.clusterName end
    if how == "Complete" then completed = completed + 1 end
  end
  status.conditions = {}
  if #failed > 0 then
    status.conditions[1] = {
      type = "Failed", status = "True", reason = "JobFailed",
      message = "Job executed failed in member clusters: " .. joined(failed),
    }
  end
  if completed > 0 and completed == #items then
    status.conditions[#status.conditions + 1] = {
      type = "Completed", status = "True", reason = "Completed", message = "Job completed",
    }
  end
  return obj
end

function Retain(desired, observed)
  local metadata = observed.spec and observed.spec.template and observed.spec.template.metadata
  if metadata ~= nil and metadata.labels ~= nil then
    desired.spec.template.metadata = desired.spec.template.metadata or {}
    desired.spec.template.metadata.labels = metadata.labels
  end
  return desired
end

function ReflectStatus(obj)
  return picked(obj.status,
    { "conditions", "startTime", "completionTime", "active", "succeeded", "failed", "desired", "phase" })
end

function GetDependencies(obj)
  return pod_dependencies(obj.spec.template, obj)
end
