local FIELDS = { "artifact", "conditions", "observedChartName", "observedSourceArtifactRevision", "url" }
local LAST = { "artifact", "url", "observedChartName", "observedSourceArtifactRevision" }
local READY = { "Succeeded", "ChartPullSucceeded" }

local function name_all(spec, secret)
  secret((spec.verify or {}).secretRef)
end

