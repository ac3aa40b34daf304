local FIELDS = { "artifact", "conditions", "observedGeneration", "observedIgnore", "observedRecurseSubmodules" }
local LAST = { "artifact" }
local READY = { "Succeeded" }

local function name_all(spec, secret)
  secret(spec.secretRef)
  secret((spec.verify or {}).secretRef)
end

