local FIELDS = { "artifact", "conditions", "observedGeneration", "url" }
local LAST = { "artifact", "url" }
local READY = { "Succeeded" }

local function name_all(spec, secret, add)
  secret(spec.secretRef)
  secret((spec.verify or {}).secretRef)
  secret(spec.certSecretRef)
  add("ServiceAccount", spec.serviceAccountName)
end

