local DEPLOYMENT = {
  "Failed", "ValidationFailed", "Retrying", "Suspending", "Suspended", "Waiting", "Initializing", "Running", "Complete",
}
local JOB = { "FAILED", "STOPPED", "PENDING", "RUNNING", "SUCCEEDED" }

function GetComponents(obj)
  return ray_components(obj.spec.rayClusterSpec or {})
end

function InterpretHealth(obj)
  local status = obj.status or {}
  return status.jobDeploymentStatus == "Running"
    or (status.jobDeploymentStatus == "Complete" and status.jobStatus == "SUCCEEDED")
end

function AggregateStatus(obj, items)
  obj.spec = nil
  if only(items) then
    obj.status = only(items)
    return obj
  end
  local deployment, from = worst(items, DEPLOYMENT, "jobDeploymentStatus")
  obj.status = {
    jobDeploymentStatus = deployment, reason = from.reason, message = from.message, jobStatus = worst(items, JOB, "jobStatus"),
  }
  return obj
end

function GetDependencies(obj)
  local list, _, add_all = references(obj)
  for _, template in ipairs(ray_pods(obj.spec.rayClusterSpec or {})) do add_all(pod_dependencies(template, obj)) end
  add_all(pod_dependencies(obj.spec.submitterPodTemplate, obj))
  return list
end
