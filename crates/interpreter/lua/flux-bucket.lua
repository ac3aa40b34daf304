local FIELDS = { "artifact", "conditions", "observedGeneration", "observedIgnore", "url" }
local LAST = { "artifact", "url" }
local READY = { "Succeeded" }

local function name_all(spec, secret)
  secret(spec.secretRef)
end

