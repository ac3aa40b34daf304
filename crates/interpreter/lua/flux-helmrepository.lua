local FIELDS = { "artifact", "conditions", "observedGeneration", "url" }
local LAST = { "artifact", "url" }
local READY = { "Succeeded" }

local function name_all(spec, secret)
  secret(spec.secretRef)
end

