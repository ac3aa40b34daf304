function GetReplicas(obj)
  return 1, kube.accuratePodRequirements(obj.spec.template)
end

function InterpretHealth(obj)
  local state = (obj.status or {}).containerState or {}
  if state.running ~= nil then return true end
  if state.waiting ~= nil then return state.waiting.reason == "ContainerCreating" end
  if state.terminated ~= nil then
    local reason = state.terminated.reason
    return state.terminated.exitCode == 0 and (reason == nil or reason == "" or reason == "Completed")
  end
  return false
end

function AggregateStatus(obj, items)
  if only(items) then
    obj.status = only(items)
    return obj
  end
  local status, ready, failed = {}, {}, {}
  sum(status, items, { "readyReplicas" })
  last(status, items, { "containerState" })
  for _, item in ipairs(items or {}) do
    local one = item.status or {}
    local state = one.containerState or {}
    if (one.readyReplicas or 0) > 0 then ready[#ready + 1] = item.clusterName end
    if state.terminated ~= nil and state.terminated.exitCode ~= 0 then failed[#failed + 1] = item.clusterName end
  end
  status.conditions = {}
  if #ready > 0 and #ready == #items then
    status.conditions[1] = { type = "Ready", status = "True", reason = "NotebookReady", message = "Ready in all member clusters" }
  end
  if #failed > 0 then
    status.conditions[#status.conditions + 1] = {
      type = "Failed", status = "True", reason = "NotebookFailed", message = "Failed in member clusters: " .. joined(failed),
    }
  end
  obj.status = status
  return obj
end

function ReflectStatus(obj)
  return picked(obj.status, { "readyReplicas", "containerState", "conditions" })
end
