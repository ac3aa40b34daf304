local COUNTERS = {
  "replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "updatedReadyReplicas",
  "expectedUpdatedReplicas",
}
local NAMES = { "updateRevision", "currentRevision", "labelSelector" }
local ALWAYS_NAMED = false

