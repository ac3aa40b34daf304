function InterpretHealth(obj)
  local ready = (obj.status or {}).ready
  if ready ~= nil then return ready == true end
  return ready_because(obj, "Succeeded")
end

function AggregateStatus(obj, items)
  if is_nowhere(items) then return obj end
  local status = { rulecount = { generate = 0, mutate = 0, validate = 0, verifyimages = 0 } }
  last(status, items, { "autogen", "ready" })
  for _, one in ipairs(statuses(items)) do
    for rule, count in pairs(one.rulecount or {}) do
      status.rulecount[rule] = (status.rulecount[rule] or 0) + count
    end
  end
  status.conditions = merged_conditions(items)
  obj.status = status
  return obj
end

function ReflectStatus(obj)
  return picked(obj.status, { "ready", "conditions", "autogen", "rulecount" })
end
