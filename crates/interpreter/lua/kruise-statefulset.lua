local COUNTERS = {
  "replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas", "updatedReadyReplicas",
}
local NAMES = { "currentRevision", "updateRevision", "labelSelector" }

