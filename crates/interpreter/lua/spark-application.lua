local ORDER = {
  "FAILED", "SUBMISSION_FAILED", "FAILING", "UNKNOWN", "INVALIDATING", "PENDING_RERUN", "SUSPENDED", "SUSPENDING", "SUBMITTED",
  "RUNNING", "SUCCEEDING", "COMPLETED",
}
local MIB = 1048576

-- Java writes memory as 512m or 2g; no unit means bytes.
local function mebibytes(memory)
  local amount, unit = string.match(string.lower(memory or ""), "^%s*([%d%.]+)%s*(%a*)")
  if amount == nil then return nil end
  local powers = { k = -1, m = 0, g = 1, t = 2 }
  local power = powers[string.sub(unit, 1, 1)]
  if power == nil then return tonumber(amount) / MIB end
  return tonumber(amount) * 1024 ^ power
end

local function requirements(obj, pod)
  local factor = tonumber(obj.spec.memoryOverheadFactor)
  if factor == nil then
    local jvm = obj.spec.type == "Java" or obj.spec.type == "Scala"
    factor = jvm and 0.10 or 0.40
  end
  local memory = mebibytes(pod.memory or "1g")
  local overhead = mebibytes(pod.memoryOverhead) or math.max(memory * factor, 384)
  local request = {
    cpu = tostring(pod.coreRequest or pod.cores or 1),
    memory = string.format("%fMi", memory + overhead),
  }
  if pod.gpu ~= nil and pod.gpu.name ~= nil then request[pod.gpu.name] = tostring(pod.gpu.quantity or 0) end
  local affinity = pod.affinity and pod.affinity.nodeAffinity
  local claim = {
    nodeSelector = pod.nodeSelector or obj.spec.nodeSelector,
    tolerations = pod.tolerations,
    hardNodeAffinity = affinity and affinity.requiredDuringSchedulingIgnoredDuringExecution,
  }
  if next(claim) == nil then claim = nil end
  return { resourceRequest = request, nodeClaim = claim, priorityClassName = pod.priorityClassName }
end

local function executors(obj)
  local count = (obj.spec.executor or {}).instances or 1
  local dynamic = obj.spec.dynamicAllocation
  if dynamic ~= nil and dynamic.enabled then
    count = math.max(count, dynamic.initialExecutors or 0, dynamic.minExecutors or 0)
  end
  return count
end

function GetComponents(obj)
  return {
    { name = "driver", replicas = 1, replicaRequirements = requirements(obj, obj.spec.driver or {}) },
    { name = "executor", replicas = executors(obj), replicaRequirements = requirements(obj, obj.spec.executor or {}) },
  }
end

function InterpretHealth(obj)
  local state = ((obj.status or {}).applicationState or {}).state
  return state ~= nil and state ~= "" and state ~= "FAILED"
end

function AggregateStatus(obj, items)
  if only(items) then
    obj.status = only(items)
    return obj
  end
  local status, rank, found = { executorState = {} }, {}, nil
  for i, name in ipairs(ORDER) do rank[name] = i end
  sum(status, items, { "executionAttempts", "submissionAttempts" })
  for _, one in ipairs(statuses(items)) do
    local state = (one.applicationState or {}).state
    if state ~= nil and (found == nil or (rank[state] or 99) < (rank[found] or 99)) then
      found, status.applicationState = state, one.applicationState
    end
    status.lastSubmissionAttemptTime = later(status.lastSubmissionAttemptTime, one.lastSubmissionAttemptTime)
    status.terminationTime = later(status.terminationTime, one.terminationTime)
    for name, value in pairs(one.executorState or {}) do status.executorState[name] = value end
  end
  obj.status = status
  return obj
end

function ReflectStatus(obj)
  return picked(obj.status, {
    "applicationState", "driverInfo", "executionAttempts", "executorState", "lastSubmissionAttemptTime",
    "sparkApplicationId", "submissionAttempts", "submissionID", "terminationTime",
  })
end
