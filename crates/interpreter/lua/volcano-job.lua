local COUNTERS = { "pending", "running", "succeeded", "failed", "terminating", "unknown", "minAvailable", "retryCount" }
local HEALTHY = {
  Running = true, Completed = true, Pending = true, Aborting = true, Aborted = true, Restarting = true,
  Completing = true, Terminating = true, Terminated = true,
}

function GetComponents(obj)
  local list = {}
  for i, task in ipairs(spec_of(obj).tasks or {}) do
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

local UNITS = { h = 3600, m = 60, s = 1, ms = 1e-3, us = 1e-6, ["\194\181s"] = 1e-6, ns = 1e-9 }

-- Of a duration as Go prints it, such as 1m5.2s or 300ms.
local function seconds(duration)
  if type(duration) == "number" then return duration end
  if type(duration) ~= "string" then return 0 end
  local total = 0
  for amount, unit in string.gmatch(duration, "([%d%.]+)([^%d%.]+)") do
    total = total + (tonumber(amount) or 0) * (UNITS[unit] or 0)
  end
  return total
end

-- The time stays until the state changes: otherwise every aggregation would write the template's status.
local function ended(obj, phase, reason, message)
  local before, since = (obj.status or {}).state or {}, nil
  if before.phase == phase and before.message == message then since = before.lastTransitionTime end
  return { phase = phase, reason = reason, message = message, lastTransitionTime = since or now() }
end

local BAD = { Failed = true, Aborted = true, Aborting = true, Terminated = true, Terminating = true }

-- Those of the first member in which something went wrong; where nothing did, the newest of each kind.
local function conditions_of(items)
  local newest, order, list = {}, {}, {}
  for _, one in ipairs(statuses(items)) do
    for _, condition in ipairs(one.conditions or {}) do
      local name = condition.status or ""
      if BAD[name] then return one.conditions end
      local known = newest[name]
      if known == nil then order[#order + 1] = name end
      if known == nil or (condition.lastTransitionTime or "") > (known.lastTransitionTime or "") then
        newest[name] = condition
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
    status.state = ended(obj, "Failed", "VolcanoJobFailed", "Job failed in clusters: " .. table.concat(failed, ","))
  elseif completed == #items then
    status.state = ended(obj, "Completed", "Completed", "Job completed successfully")
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
