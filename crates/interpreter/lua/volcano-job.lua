local COUNTERS = { "pending", "running", "succeeded", "failed", "terminating", "unknown", "minAvailable", "retryCount" }
local HEALTHY = {
  Running = true, Completed = true, Pending = true, Aborting = true, Aborted = true, Restarting = true,
  Completing = true, Terminating = true, Terminated = true,
}

function GetComponents(obj)
  local list = {}
  for i, task in ipairs(obj.spec.tasks or {}) do
    local name = task.name
    if name == nil or name == "" then name = "task-" .. (i - 1) end
    list[i] = component(name, number_or(task.minAvailable, 1), task.template)
  end
  return list
end

function InterpretHealth(obj)
  local state = (obj.status or {}).state or {}
  return HEALTHY[state.phase] == true
end

local function seconds(duration)
  if type(duration) == "number" then return duration end
  local total, units = 0, { h = 3600, m = 60, s = 1 }
  for amount, unit in string.gmatch(duration or "", "([%d%.]+)([hms])") do
    total = total + (tonumber(amount) or 0) * units[unit]
  end
  return total
end

local BAD = { Failed = true, Aborted = true, Aborting = true, Terminated = true, Terminating = true }

-- Those of the first member in which something went wrong; where nothing did, the newest of each kind.
local function conditions_of(items)
  local newest, order, list = {}, {}, {}
  for _, one in ipairs(statuses(items)) do
    for _, condition in ipairs(one.conditions or {}) do
      if BAD[condition.status] then return one.conditions end
      local known = newest[condition.status]
      if known == nil then order[#order + 1] = condition.status end
      if known == nil or (condition.lastTransitionTime or "") > (known.lastTransitionTime or "") then
        newest[condition.status] = condition
      end
    end
  end
  for i, name in ipairs(order) do list[i] = newest[name] end
  return list
end

function AggregateStatus(obj, items)
  if is_nowhere(items) then return obj end
  if only(items) then
    obj.status = only(items)
    return obj
  end
  local status, failed, completed = { taskStatusCount = {}, controlledResources = {}, version = 0 }, {}, 0
  sum(status, items, COUNTERS)
  for _, item in ipairs(items) do
    local one = item.status or {}
    status.version = math.max(status.version, one.version or 0)
    if seconds(one.runningDuration) > seconds(status.runningDuration) then status.runningDuration = one.runningDuration end
    for task, counted in pairs(one.taskStatusCount or {}) do
      local total = status.taskStatusCount[task] or { phase = {} }
      status.taskStatusCount[task] = total
      for phase, count in pairs(counted.phase or {}) do total.phase[phase] = (total.phase[phase] or 0) + count end
    end
    for name, value in pairs(one.controlledResources or {}) do status.controlledResources[name] = value end
    local phase = (one.state or {}).phase
    if phase == "Failed" or phase == "Aborted" then failed[#failed + 1] = item.clusterName end
    if phase == "Completed" then completed = completed + 1 end
  end
  if #failed > 0 then
    local message = "Job failed in clusters: " .. table.concat(failed, ",")
    status.state = { phase = "Failed", reason = "VolcanoJobFailed", message = message, lastTransitionTime = now() }
  elseif completed == #items then
    local message = "Job completed successfully"
    status.state = { phase = "Completed", reason = "Completed", message = message, lastTransitionTime = now() }
  end
  status.conditions = conditions_of(items)
  obj.status = dropped_zeros(status)
  return obj
end

function ReflectStatus(obj)
  return picked(obj.status, {
    "pending", "running", "succeeded", "failed", "terminating", "unknown", "minAvailable", "retryCount", "version",
    "runningDuration", "taskStatusCount", "controlledResources", "state", "conditions",
  })
end
