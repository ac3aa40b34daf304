-- Flux's sources. What differs stands in front: the FIELDS that are reflected, those of which the LAST counts, the
-- reasons of being READY, and which secrets a spec names.
function InterpretHealth(obj)
  return ready_because(obj, unpack(READY))
end

function AggregateStatus(obj, items)
  local status = start(obj)
  for _, field in ipairs(LAST) do status[field] = field ~= "artifact" and "" or nil end
  last(status, items, LAST)
  -- Where the status does not say which generation it is of, its condition does.
  for _, one in ipairs(statuses(items)) do
    local ready = condition_of({ status = one }, "Ready") or {}
    one.observedGeneration = one.observedGeneration or ready.observedGeneration
  end
  status.conditions = merged_conditions(items)
  observe(obj, items)
  return obj
end

function Retain(desired, observed)
  return keep_suspend(desired, observed)
end

function ReflectStatus(obj)
  return reflected(obj, FIELDS)
end

function GetDependencies(obj)
  local list, add = references(obj)
  local function secret(reference)
    if reference then add("Secret", reference.name) end
  end
  name_all(spec_of(obj), secret, add)
  return list
end
