-- What a user should hear of first comes first.
local DEPLOYMENT = {
  "Failed", "ValidationFailed", "Complete", "Running", "Retrying", { "Suspended", "Suspending" }, "Waiting", "Initializing",
}
local JOB = { "FAILED", "STOPPED", "SUCCEEDED", "RUNNING", "PENDING" }

function GetComponents(obj)
  return ray_components(spec_of(obj).rayClusterSpec or {})
end

function InterpretHealth(obj)
  local status = obj.status or {}
  return status.jobDeploymentStatus == "Running"
    or (status.jobDeploymentStatus == "Complete" and status.jobStatus == "SUCCEEDED")
end

function AggregateStatus(obj, items)
  if is_nowhere(items) then return obj end
  obj.spec = nil
  if only(items) then
    obj.status = only(items)
    return obj
  end
  local deployment, from = worst(statuses(items), DEPLOYMENT, "jobDeploymentStatus")
  local status = start(obj)
  status.jobDeploymentStatus, status.reason, status.message = deployment, from.reason, from.message
  status.jobStatus = worst(statuses(items), JOB, "jobStatus")
  return obj
end

function GetDependencies(obj)
  local list, _, add_all = references(obj)
  for _, template in ipairs(ray_pods(spec_of(obj).rayClusterSpec or {})) do add_all(pod_dependencies(template, obj)) end
  add_all(pod_dependencies(spec_of(obj).submitterPodTemplate, obj))
  return list
end
