function GetReplicas(obj)
  return 1, kube.accuratePodRequirements(spec_of(obj).template)
end

local BAD_ENDS = { Error = true, OOMKilled = true, ContainerCannotRun = true }

function InterpretHealth(obj)
  local state = (obj.status or {}).containerState or {}
  if state.running ~= nil then return true end
  if state.waiting ~= nil then return state.waiting.reason == "ContainerCreating" end
  if state.terminated ~= nil then
    return (state.terminated.exitCode or 0) == 0 and not BAD_ENDS[state.terminated.reason or ""]
  end
  return false
end

-- Not to have started, to wait and to have ended are failures where several members have one notebook.
function AggregateStatus(obj, items)
  if is_nowhere(items) then return obj end
  if only(items) then
    obj.status = only(items)
    return obj
  end
  local status, failed, running, bad, since = { conditions = {} }, {}, 0, nil, nil
  sum(status, items, { "readyReplicas" })
  for _, item in ipairs(items) do
    local state = item.status ~= nil and (item.status.containerState or {}) or nil
    if state ~= nil and state.running ~= nil and state.terminated == nil and state.waiting == nil then
      running = running + 1
      since = later(since, state.running.startedAt)
    elseif state ~= nil then
      failed[#failed + 1] = item.clusterName
      bad = next(state) ~= nil and state or { waiting = { reason = "Unschedulable" } }
    end
  end
  if #failed > 0 then
    local message = "Notebook executed failed in member clusters: " .. joined(failed)
    status.containerState = bad
    status.conditions[1] = own_condition(obj, "Failed", "NotebookFailed", message)
  elseif running > 0 then
    status.containerState = { running = { startedAt = since } }
    if running == #items then status.conditions[1] = own_condition(obj, "Ready", "Ready", "All notebooks are ready") end
  end
  obj.status = status
  return obj
end

function ReflectStatus(obj)
  if obj.status == nil then return {} end
  local status = picked(obj.status, { "readyReplicas", "containerState", "conditions" })
  status.readyReplicas = status.readyReplicas or 0
  return status
end
