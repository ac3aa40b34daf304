function GetReplicas(obj)
  local affinity = obj.spec.affinity and obj.spec.affinity.nodeAffinity
  local claim = {
    nodeSelector = obj.spec.nodeSelector,
    tolerations = obj.spec.tolerations,
    hardNodeAffinity = affinity and affinity.requiredDuringSchedulingIgnoredDuringExecution,
  }
  local requirements = nil
  if next(claim) ~= nil then requirements = { nodeClaim = claim } end
  return obj.spec.parallelism or 1, requirements
end

function ReviseReplica(obj, replicas)
  obj.spec.parallelism = replicas
  return obj
end

function InterpretHealth(obj)
  local phase = (obj.status or {}).phase
  return phase ~= nil and phase ~= "" and phase ~= "Error" and phase ~= "Failed"
end

function Retain(desired, observed)
  keep_suspend(desired, observed)
  if observed.status ~= nil then desired.status = observed.status end
  return desired
end

function GetDependencies(obj)
  local list, add, add_all = references(obj)
  local spec = obj.spec
  if spec.executor ~= nil then add("ServiceAccount", spec.executor.serviceAccountName) end
  for _, claim in ipairs(spec.volumeClaimTemplates or {}) do
    add("PersistentVolumeClaim", claim.metadata and claim.metadata.name)
  end
  -- What a pod with these would need.
  add_all(pod_dependencies({ spec = {
    volumes = spec.volumes, imagePullSecrets = spec.imagePullSecrets, serviceAccountName = spec.serviceAccountName,
  } }, obj))
  for _, volume in ipairs(spec.volumes or {}) do
    if volume.secret ~= nil then add("Secret", volume.secret.name) end
  end
  return list
end
