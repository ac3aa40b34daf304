local COUNTERS = {
  "replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas", "updatedReadyReplicas",
}
local NAMES = { "currentRevision", "updateRevision" }
-- They are there, if empty, also where it is nowhere.
local ALWAYS_NAMED = true

