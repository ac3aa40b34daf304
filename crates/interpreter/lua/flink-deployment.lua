local FIELDS = {
  "clusterInfo", "error", "jobManagerDeploymentStatus", "jobStatus", "lifecycleState", "observedGeneration",
  "reconciliationStatus", "taskManager",
}
local RUNS = { RUNNING = true, FINISHED = true, FAILED = true, CANCELED = true, SUSPENDED = true, CANCELLING = true,
  FAILING = true, RESTARTING = true }
local STARTS = { CREATED = true, INITIALIZING = true, RECONCILING = true }

local function manager(obj, name)
  return obj.spec[name] or {}
end

local function taskmanagers(obj)
  local replicas = tonumber(manager(obj, "taskManager").replicas)
  if replicas ~= nil then return replicas end
  local parallelism = spec_of(obj).job and tonumber(spec_of(obj).job.parallelism)
  local slots = tonumber((spec_of(obj).flinkConfiguration or {})["taskmanager.numberOfTaskSlots"])
  if parallelism == nil or slots == nil or slots <= 0 then return 1 end
  return math.ceil(parallelism / slots)
end

-- Flink writes memory as 2048m or 2g, and means powers of two.
local function bytes(memory)
  local amount, unit = string.match(string.lower(memory), "^%s*([%d%.]+)%s*(%a*)")
  local powers = { k = 1, m = 2, g = 3, t = 4 }
  return math.floor((tonumber(amount) or 0) * 1024 ^ (powers[string.sub(unit or "", 1, 1)] or 0))
end

-- A field of the manager's pod template, or of the common one, which Flink merges it into.
local function pod_field(obj, name, field)
  local own = (manager(obj, name).podTemplate or {}).spec or {}
  local common = (spec_of(obj).podTemplate or {}).spec or {}
  if own[field] ~= nil then return own[field] end
  return copied(common[field])
end

local function requirements(obj, name)
  local resource = manager(obj, name).resource or {}
  local request = {}
  local claim = { nodeSelector = pod_field(obj, name, "nodeSelector"), tolerations = pod_field(obj, name, "tolerations") }
  if resource.cpu ~= nil then request.cpu = resource.cpu end
  if resource.memory ~= nil then request.memory = bytes(resource.memory) end
  local found = { resourceRequest = request, priorityClassName = pod_field(obj, name, "priorityClassName") }
  if next(claim) ~= nil then found.nodeClaim = claim end
  return found
end

function GetComponents(obj)
  return {
    {
      name = "jobmanager", replicas = number_or(manager(obj, "jobManager").replicas, 1),
      replicaRequirements = requirements(obj, "jobManager"),
    },
    { name = "taskmanager", replicas = taskmanagers(obj), replicaRequirements = requirements(obj, "taskManager") },
  }
end

local function quantity(amount)
  return tonumber(amount) or kube.getResourceQuantity(amount)
end

function GetReplicas(obj)
  local job, task = requirements(obj, "jobManager"), requirements(obj, "taskManager")
  local most, found = {}, { namespace = namespace_of(obj) }
  for _, needed in ipairs { task, job } do
    found.nodeClaim = found.nodeClaim or needed.nodeClaim
    found.priorityClassName = found.priorityClassName or needed.priorityClassName
    for name, amount in pairs(needed.resourceRequest) do
      if most[name] == nil or quantity(amount) > quantity(most[name]) then most[name] = amount end
    end
  end
  found.resourceRequest = most
  return number_or(manager(obj, "jobManager").replicas, 1) + taskmanagers(obj), found
end

function InterpretHealth(obj)
  local status = obj.status or {}
  local state = (status.jobStatus or {}).state
  if state == nil or state == "" then
    return status.jobManagerDeploymentStatus == "READY" and status.lifecycleState == "STABLE"
  end
  if RUNS[state] then return true end
  if not STARTS[state] then return false end
  -- A job that cannot start would be moved from cluster to cluster for ever.
  for _, reason in ipairs { "ErrImagePull", "ImagePullBackOff", "CrashLoopBackOff" } do
    if string.find(status.error or "", reason, 1, true) then return true end
  end
  return false
end

-- The last member that says anything is the one in which the job runs.
function AggregateStatus(obj, items)
  local found = statuses(items)
  if #found == 0 then return obj end
  local status, newest = start(obj), found[#found]
  for _, field in ipairs(FIELDS) do status[field] = newest[field] end
  return obj
end

function ReflectStatus(obj)
  return picked(obj.status, FIELDS)
end
