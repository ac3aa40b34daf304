local ORDER = {
  { "FAILED", "FAILING", "SUBMISSION_FAILED" }, "INVALIDATING", { "RUNNING", "RESUMING", "SUCCEEDING" },
  { "SUSPENDED", "SUSPENDING" }, "COMPLETED", { "SUBMITTED", "PENDING_RERUN" }, "UNKNOWN",
}
local MIB = 1048576

-- Java writes memory as 512m or 2g; no unit means bytes.
local function mebibytes(memory)
  local amount, unit = string.match(string.lower(memory or ""), "^%s*([%d%.]+)%s*(%a*)")
  if amount == nil then return nil end
  local powers = { k = -1, m = 0, g = 1, t = 2, p = 3 }
  local power = powers[string.sub(unit, 1, 1)]
  if power == nil then return tonumber(amount) / MIB end
  return tonumber(amount) * 1024 ^ power
end

local function requirements(obj, pod)
  local factor = tonumber(spec_of(obj).memoryOverheadFactor)
  if factor == nil then
    local type = string.lower(spec_of(obj).type or "")
    local jvm = type == "java" or type == "scala"
    factor = jvm and 0.10 or 0.40
  end
  local memory = mebibytes(pod.memory or "1g")
  local overhead = mebibytes(pod.memoryOverhead) or math.max(memory * factor, 384)
  local request = {
    cpu = tostring(pod.coreRequest or pod.cores or 1),
    memory = string.format("%fMi", memory + overhead),
  }
  local gpus = pod.gpu and number_or(pod.gpu.quantity, 0) or 0
  if gpus > 0 and (pod.gpu.name or "") ~= "" then request[pod.gpu.name] = tostring(gpus) end
  local affinity = pod.affinity and pod.affinity.nodeAffinity
  local claim = {
    nodeSelector = pod.nodeSelector or copied(spec_of(obj).nodeSelector),
    tolerations = pod.tolerations,
    hardNodeAffinity = affinity and affinity.requiredDuringSchedulingIgnoredDuringExecution,
  }
  if next(claim) == nil then claim = nil end
  return { resourceRequest = request, nodeClaim = claim, priorityClassName = pod.priorityClassName }
end

local function executors(obj)
  local count = number_or((spec_of(obj).executor or {}).instances, 1)
  local dynamic = spec_of(obj).dynamicAllocation
  if dynamic ~= nil and dynamic.enabled then
    count = math.max(count, number_or(dynamic.initialExecutors, 0), number_or(dynamic.minExecutors, 0))
  end
  return count
end

function GetComponents(obj)
  return {
    { name = "driver", replicas = 1, replicaRequirements = requirements(obj, spec_of(obj).driver or {}) },
    { name = "executor", replicas = executors(obj), replicaRequirements = requirements(obj, spec_of(obj).executor or {}) },
  }
end

function InterpretHealth(obj)
  local state = ((obj.status or {}).applicationState or {}).state
  return state ~= nil and state ~= "" and state ~= "FAILED"
end

function AggregateStatus(obj, items)
  if is_nowhere(items) then return obj end
  if only(items) then
    obj.status = only(items)
    return obj
  end
  local status, states = start(obj), {}
  -- An empty text is not a time: the CRD would refuse the status.
  status.executorState, status.lastSubmissionAttemptTime, status.terminationTime = {}, nil, nil
  status.driverInfo = nil
  sum(status, items, { "executionAttempts", "submissionAttempts" })
  for _, one in ipairs(statuses(items)) do
    states[#states + 1] = one.applicationState
    status.driverInfo = status.driverInfo or one.driverInfo
    for _, field in ipairs { "lastSubmissionAttemptTime", "terminationTime" } do
      status[field] = later(status[field], one[field])
    end
    for name, value in pairs(one.executorState or {}) do status.executorState[name] = value end
  end
  local _, state = worst(states, ORDER, "state")
  status.applicationState = state
  -- The CRD requires it.
  status.driverInfo = status.driverInfo or { podName = "" }
  return obj
end

function ReflectStatus(obj)
  return picked(obj.status, {
    "applicationState", "driverInfo", "executionAttempts", "executorState", "lastSubmissionAttemptTime",
    "sparkApplicationId", "submissionAttempts", "submissionID", "terminationTime",
  })
end
