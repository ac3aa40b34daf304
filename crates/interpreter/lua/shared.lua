-- What the shipped customizations share. It stands in front of each of them.
local kube = require("kube")

local function statuses(items)
  local found = {}
  for _, item in ipairs(items or {}) do
    if item.status ~= nil then found[#found + 1] = item.status end
  end
  return found
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

-- Of the last item that has it.
local function last(status, items, fields)
  for _, one in ipairs(statuses(items)) do
    for _, field in ipairs(fields) do
      if one[field] ~= nil then status[field] = one[field] end
    end
  end
end

-- The template has been observed once every member has observed its current version.
local function observe(obj, items)
  local generation, current = obj.metadata.generation or 0, 0
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
      local message = item.clusterName .. "=" .. (condition.message or "")
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

local function latest_conditions(items)
  local latest, order = {}, {}
  for _, one in ipairs(statuses(items)) do
    for _, condition in ipairs(one.conditions or {}) do
      local known = latest[condition.type]
      if known == nil then order[#order + 1] = condition.type end
      if known == nil or (condition.lastTransitionTime or "") >= (known.lastTransitionTime or "") then
        latest[condition.type] = condition
      end
    end
  end
  local list = {}
  for i, name in ipairs(order) do list[i] = latest[name] end
  return list
end

local function picked(status, fields)
  local found = {}
  for _, field in ipairs(fields) do found[field] = (status or {})[field] end
  return found
end

local function reflected(obj, fields)
  local status = picked(obj.status, fields)
  status.generation = obj.metadata.generation
  local annotations = obj.metadata.annotations or {}
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
  return obj.metadata.namespace
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

-- RFC 3339 times in UTC compare as text.
local function earlier(a, b)
  if a == nil or (b ~= nil and b < a) then return b end
  return a
end

local function later(a, b)
  if a == nil or (b ~= nil and b > a) then return b end
  return a
end

local function dropped_zeros(status)
  for name, value in pairs(status) do
    if value == 0 or value == "" or (type(value) == "table" and next(value) == nil) then status[name] = nil end
  end
  return status
end

-- The status of an only member is the template's.
local function only(items)
  if #(items or {}) == 1 then return items[1].status or {} end
  return nil
end

-- Conditions of training jobs over all members.
local function training_status(items, failed_reason, reasons, single)
  if single and only(items) then return only(items) end
  local status, failed, running, created, succeeded = { replicaStatuses = {} }, {}, {}, {}, {}
  for _, item in ipairs(items or {}) do
    local one = item.status or {}
    status.startTime = earlier(status.startTime, one.startTime)
    status.completionTime = later(status.completionTime, one.completionTime)
    status.lastReconcileTime = later(status.lastReconcileTime, one.lastReconcileTime)
    for role, counts in pairs(one.replicaStatuses or {}) do
      local total = status.replicaStatuses[role] or {}
      status.replicaStatuses[role] = total
      for field, value in pairs(counts) do
        if type(value) == "number" then total[field] = (total[field] or 0) + value end
      end
    end
    local into = { Failed = failed, Running = running, Created = created, Succeeded = succeeded }
    for _, condition in ipairs(one.conditions or {}) do
      local list = into[condition.type]
      if list and condition.status == "True" then list[#list + 1] = item.clusterName end
    end
  end
  local conditions, count = {}, #(items or {})
  local function add(name, reason, message)
    conditions[#conditions + 1] = { type = name, status = "True", reason = reason, message = message }
  end
  if #created > 0 then add("Created", reasons.Created, "Created in member clusters: " .. joined(created)) end
  if #running > 0 then add("Running", reasons.Running, "Running in member clusters: " .. joined(running)) end
  if #failed > 0 then add("Failed", failed_reason, "Failed in member clusters: " .. joined(failed)) end
  if count > 0 and #succeeded == count then
    add("Succeeded", reasons.Succeeded, "Succeeded in all member clusters")
  else
    status.completionTime = nil
  end
  status.conditions = conditions
  return dropped_zeros(status)
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
  if spec.headGroupSpec then list[1] = component("ray-head", 1, spec.headGroupSpec.template) end
  for i, group in ipairs(spec.workerGroupSpecs or {}) do
    list[#list + 1] = component(group.groupName or ("worker-" .. i), group.replicas or 0, group.template)
  end
  return list
end

-- The value that comes first in the order of seriousness.
local function worst(items, order, field)
  local rank, found, from = {}, nil, nil
  for i, value in ipairs(order) do rank[value] = i end
  for _, one in ipairs(statuses(items)) do
    local value = one[field]
    if value ~= nil and value ~= "" and (found == nil or (rank[value] or 99) < (rank[found] or 99)) then
      found, from = value, one
    end
  end
  return found, from or {}
end

