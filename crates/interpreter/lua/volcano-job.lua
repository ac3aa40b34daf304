local COUNTERS = { "pending", "running", "succeeded", "failed", "terminating", "unknown", "minAvailable", "retryCount" }
local HEALTHY = {
  Running = true, Completed = true, Pending = true, Aborting = true, Aborted = true, Restarting = true,
  Completing = true, Terminating = true, Terminated = true,
}

function GetComponents(obj)
  local list = {}
  for i, task in ipairs(obj.spec.tasks or {}) do
    list[i] = component(task.name or ("task-" .. (i - 1)), task.minAvailable or 1, task.template)
  end
  return list
end

function InterpretHealth(obj)
  local state = (obj.status or {}).state or {}
  return HEALTHY[state.phase] == true
end

local function seconds(duration)
  local total, units = 0, { h = 3600, m = 60, s = 1, ms = 0.001 }
  for amount, unit in string.gmatch(duration or "", "([%d%.]+)(%a+)") do
    total = total + (tonumber(amount) or 0) * (units[unit] or 0)
  end
  return total
end

function AggregateStatus(obj, items)
  if only(items) then
    obj.status = only(items)
    return obj
  end
  local status, failed, completed = { taskStatusCount = {}, controlledResources = {}, state = {} }, {}, 0
  sum(status, items, COUNTERS)
  for _, item in ipairs(items or {}) do
    local one = item.status or {}
    if (one.version or 0) > (status.version or 0) then status.version = one.version end
    if seconds(one.runningDuration) > seconds(status.runningDuration) then status.runningDuration = one.runningDuration end
    for task, counted in pairs(one.taskStatusCount or {}) do
      local total = status.taskStatusCount[task] or { phase = {} }
      status.taskStatusCount[task] = total
      for phase, count in pairs(counted.phase or {}) do total.phase[phase] = (total.phase[phase] or 0) + count end
    end
    for name, value in pairs(one.controlledResources or {}) do status.controlledResources[name] = value end
    local phase = (one.state or {}).phase
    if phase == "Failed" then
      failed[#failed + 1] = item.clusterName
      if #failed == 1 then status.conditions = one.conditions end
    end
    if phase == "Completed" then completed = completed + 1 end
  end
  if #failed > 0 then
    status.state = {
      phase = "Failed", reason = "VolcanoJobFailed", message = "Job failed in member clusters: " .. joined(failed),
    }
  else
    if completed > 0 and completed == #items then status.state = { phase = "Completed" } end
    local latest, order = {}, {}
    for _, one in ipairs(statuses(items)) do
      for _, condition in ipairs(one.conditions or {}) do
        local known = latest[condition.status]
        if known == nil then order[#order + 1] = condition.status end
        if known == nil or (condition.lastTransitionTime or "") > (known.lastTransitionTime or "") then
          latest[condition.status] = condition
        end
      end
    end
    status.conditions = {}
    for i, name in ipairs(order) do status.conditions[i] = latest[name] end
  end
  obj.status = dropped_zeros(status)
  return obj
end

function ReflectStatus(obj)
  return picked(obj.status, {
    "pending", "running", "succeeded", "failed", "terminating", "unknown", "minAvailable", "retryCount", "version",
    "runningDuration", "taskStatusCount", "controlledResources", "state", "conditions",
  })
end
