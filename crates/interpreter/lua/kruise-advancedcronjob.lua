function AggregateStatus(obj, items)
  if is_nowhere(items) then return obj end
  local status = start(obj)
  status.active, status.type, status.lastScheduleTime = {}, "", nil
  for _, one in ipairs(statuses(items)) do
    for _, job in ipairs(one.active or {}) do status.active[#status.active + 1] = job end
  end
  last(status, items, { "type", "lastScheduleTime" })
  return obj
end

function GetDependencies(obj)
  local template = obj.spec.template or {}
  local job = template.broadcastJobTemplate or template.jobTemplate
  return pod_dependencies(job and job.spec and job.spec.template, obj)
end
