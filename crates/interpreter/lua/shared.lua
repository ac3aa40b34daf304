-- What the shipped customizations share. It stands in front of each of them.
local kube = require("kube")

local function statuses(items)
  local found = {}
  for _, item in ipairs(items or {}) do
    if item.status ~= nil then found[#found + 1] = item.status end
  end
  return found
end

local function is_nowhere(items)
  return items == nil or #items == 0
end

local function spec_of(obj)
  return obj.spec or {}
end

local function start(obj)
  if obj.status == nil then obj.status = {} end
  return obj.status
end

local function sum(status, items, fields)
  for _, field in ipairs(fields) do
    local total = 0
    for _, one in ipairs(statuses(items)) do total = total + (one[field] or 0) end
    status[field] = total
  end
end

-- Of the last item that says anything.
local function last(status, items, fields)
  for _, one in ipairs(statuses(items)) do
    for _, field in ipairs(fields) do
      if one[field] ~= nil and one[field] ~= "" then status[field] = one[field] end
    end
  end
end

-- The template has been observed once every member has observed its current version.
local function observe(obj, items)
  local generation, current = tonumber(obj.metadata.generation) or 0, 0
  for _, one in ipairs(statuses(items)) do
    if (one.resourceTemplateGeneration or 0) == generation and (one.generation or 0) == (one.observedGeneration or 0) then
      current = current + 1
    end
  end
  local status = start(obj)
  if current == #(items or {}) then
    status.observedGeneration = generation
  else
    status.observedGeneration = status.observedGeneration or 0
  end
end

-- One condition per type, status and reason; the messages name their clusters.
local function merged_conditions(items)
  local merged, known = {}, {}
  for _, item in ipairs(items or {}) do
    for _, condition in ipairs((item.status or {}).conditions or {}) do
      local key = tostring(condition.type) .. "/" .. tostring(condition.status) .. "/" .. tostring(condition.reason)
      local message = (item.clusterName or "") .. "=" .. (condition.message or "")
      local same = known[key]
      if same == nil then
        condition.message = message
        known[key] = condition
        merged[#merged + 1] = condition
      else
        same.message = same.message .. ", " .. message
      end
    end
  end
  return merged
end

-- No table may be twice in a result.
local function copied(value)
  if type(value) ~= "table" then return value end
  local copy = {}
  for name, field in pairs(value) do copy[name] = copied(field) end
  return copy
end

local function picked(status, fields)
  local found = {}
  for _, field in ipairs(fields) do found[field] = (status or {})[field] end
  return found
end

local function reflected(obj, fields)
  if obj.status == nil then return {} end
  local status = picked(obj.status, fields)
  local metadata = obj.metadata or {}
  status.generation = metadata.generation
  local annotations = metadata.annotations or {}
  status.resourceTemplateGeneration = tonumber(annotations["resourcetemplate.karmada.io/generation"])
  return status
end

local function condition_of(obj, name)
  for _, condition in ipairs((obj.status or {}).conditions or {}) do
    if condition.type == name then return condition end
  end
  return nil
end

local function is_true(obj, name)
  local condition = condition_of(obj, name)
  return condition ~= nil and condition.status == "True"
end

local function ready_because(obj, ...)
  local condition = condition_of(obj, "Ready")
  if condition == nil or condition.status ~= "True" then return false end
  for _, reason in ipairs { ... } do
    if condition.reason == reason then return true end
  end
  return false
end

-- As of a Deployment.
local function rolled_out(obj)
  local status, spec, metadata = obj.status, obj.spec, obj.metadata
  if status == nil or spec == nil or metadata == nil then return false end
  if (status.observedGeneration or 0) ~= (metadata.generation or 0) then return false end
  local updated = status.updatedReplicas or 0
  if spec.replicas ~= nil and updated < spec.replicas then return false end
  return (status.availableReplicas or 0) >= updated
end

local function keep_suspend(desired, observed)
  if observed.spec ~= nil and observed.spec.suspend ~= nil then desired.spec.suspend = observed.spec.suspend end
  return desired
end

local function namespace_of(obj)
  return (obj.metadata or {}).namespace
end

local function pod_dependencies(template, obj)
  if template == nil then return {} end
  return kube.getPodDependencies(template, namespace_of(obj)) or {}
end

-- A list of references in which none stands twice.
local function references(obj)
  local list, known = {}, {}
  local function add(kind, name)
    if name == nil or name == "" or known[kind .. "/" .. name] then return end
    known[kind .. "/" .. name] = true
    list[#list + 1] = { apiVersion = "v1", kind = kind, namespace = namespace_of(obj), name = name }
  end
  local function add_all(found)
    for _, reference in ipairs(found) do add(reference.kind, reference.name) end
  end
  return list, add, add_all
end

local function component(name, replicas, template)
  return { name = name, replicas = replicas, replicaRequirements = template and kube.accuratePodRequirements(template) }
end

local function joined(list)
  return table.concat(list, ", ")
end

-- RFC 3339 times in UTC compare as text; an empty one is absent.
local function earlier(a, b)
  if b == nil or b == "" then return a end
  if a == nil or a == "" or b < a then return b end
  return a
end

local function later(a, b)
  if b == nil or b == "" then return a end
  if a == nil or a == "" or b > a then return b end
  return a
end

-- Removes fields with zero values at every depth. List items stay, because removing one would leave a gap.
local function dropped_zeros(status)
  for name, value in pairs(status) do
    local is_table = type(value) == "table"
    if is_table then dropped_zeros(value) end
    local is_zero = value == 0 or value == "" or value == "0s" or (is_table and next(value) == nil)
    if is_zero and type(name) == "string" then status[name] = nil end
  end
  return status
end

-- The status of an only member is the template's.
local function only(items)
  if #(items or {}) == 1 then return items[1].status or {} end
  return nil
end

local function now()
  return os.date("!%Y-%m-%dT%H:%M:%SZ")
end

-- A condition that members do not report. It keeps its times until it changes: otherwise every aggregation would write
-- the template's status.
local function own_condition(obj, name, reason, message)
  local before = condition_of(obj, name)
  if before ~= nil and before.status == "True" and before.message == message then return before end
  return { type = name, status = "True", reason = reason, message = message, lastProbeTime = now(), lastTransitionTime = now() }
end

local function number_or(value, otherwise)
  return tonumber(value) or otherwise
end

-- How often each outcome was seen, by role.
local function outcomes(items, roles)
  local totals = {}
  for _, role in ipairs(roles or {}) do totals[role] = { active = 0, failed = 0, succeeded = 0 } end
  for _, one in ipairs(statuses(items)) do
    for role, counts in pairs(one.replicaStatuses or {}) do
      if roles == nil then totals[role] = totals[role] or { active = 0, failed = 0, succeeded = 0 } end
      for outcome, total in pairs(totals[role] or {}) do totals[role][outcome] = total + (counts[outcome] or 0) end
    end
  end
  return totals
end

-- The condition that ended a training job in one member: the last one counts.
local function ended(status)
  local found = nil
  for _, condition in ipairs((status or {}).conditions or {}) do
    local is_end = condition.type == "Succeeded" or condition.type == "Failed"
    if is_end and condition.status == "True" then found = condition end
  end
  return found
end

-- The clusters in which a training job ended in this way.
local function clusters_ended(items, name)
  local found = {}
  for _, item in ipairs(items or {}) do
    if (ended(item.status) or {}).type == name then found[#found + 1] = item.clusterName end
  end
  return found
end

local function all_succeeded(items)
  return not is_nowhere(items) and #clusters_ended(items, "Succeeded") == #items
end

-- The times of a training job over all members. It completes when it has succeeded in all of them.
local function training_times(status, items)
  local completion
  status.startTime, status.lastReconcileTime = nil, nil
  for _, one in ipairs(statuses(items)) do
    status.startTime = earlier(status.startTime, one.startTime)
    status.lastReconcileTime = later(status.lastReconcileTime, one.lastReconcileTime)
    completion = later(completion, one.completionTime)
  end
  if is_nowhere(items) or all_succeeded(items) then status.completionTime = completion end
end

local function training_health(obj)
  local conditions = (obj.status or {}).conditions
  return conditions ~= nil and #conditions > 0 and not is_true(obj, "Failed")
end

local function ray_pods(spec)
  local templates = {}
  if spec.headGroupSpec then templates[1] = spec.headGroupSpec.template end
  for _, group in ipairs(spec.workerGroupSpecs or {}) do templates[#templates + 1] = group.template end
  return templates
end

local function ray_components(spec)
  local list = {}
  if spec.headGroupSpec and spec.headGroupSpec.template then
    list[1] = component("ray-head", 1, spec.headGroupSpec.template)
  end
  for i, group in ipairs(spec.workerGroupSpecs or {}) do
    local name = group.groupName
    if name == nil or name == "" then name = "worker-" .. i end
    list[#list + 1] = component(name, group.replicas or 0, group.template)
  end
  return list
end

-- The rank of each word in a list of words and of lists of words that weigh the same.
local function ranks(order)
  local rank = {}
  for i, words in ipairs(order) do
    if type(words) ~= "table" then words = { words } end
    for _, word in ipairs(words) do rank[word] = i end
  end
  return rank
end

-- The value that comes first in the order of seriousness, and what it stands in.
local function worst(list, order, field)
  local rank, found, from = ranks(order), nil, nil
  for _, one in ipairs(list) do
    local value = one[field]
    if value ~= nil and value ~= "" and (found == nil or (rank[value] or 99) < (rank[found] or 99)) then
      found, from = value, one
    end
  end
  return found, from or {}
end
