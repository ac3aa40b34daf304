function GetReplicas(obj)
  local spec = obj.spec
  local pod = { affinity = spec.affinity, nodeSelector = spec.nodeSelector, tolerations = spec.tolerations }
  return spec.parallelism or 1, kube.accuratePodRequirements({ spec = pod })
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
