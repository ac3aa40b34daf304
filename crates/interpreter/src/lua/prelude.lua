-- What a script sees. Given the machine's functions, returns a function that makes a new set of globals, so that nothing
-- a script changes outlives its call; and the methods of strings.
local native = ...

local assert, error, ipairs, next, pairs, select = assert, error, ipairs, next, pairs, select
local tonumber, plain_tostring, type, plain_unpack = tonumber, tostring, type, unpack
local plain_pcall = pcall
local concat, insert, remove, sort, maxn = table.concat, table.insert, table.remove, table.sort, table.maxn
local charge, check, caught, step, number_text = native.charge, native.check, native.caught, native.gmatch, native.number
local floor, constants = math.floor, math

local function checked(ok, ...)
  if ok then
    check()
    return ok, ...
  end
  local problem = caught((...))
  check()
  return ok, problem
end

local function tostring(value)
  local kind = type(value)
  -- The address of a table would differ from run to run.
  if kind == "table" or kind == "function" then return kind end
  if kind == "number" then return number_text(value) end
  return plain_tostring(value)
end

-- Lua's own loses count where the bounds are far apart, and then its memory.
local function unpack(list, first, last)
  if first == nil then first = 1 end
  if last == nil then last = #list end
  if first > last then return end
  if not (first > -2147483648 and last < 2147483647 and last - first < 8000) then
    error("too many results to unpack", 2)
  end
  return plain_unpack(list, first, last)
end

local function ascending(one, other)
  return one < other
end

local function pcall(f, ...)
  return checked(plain_pcall(f, ...))
end

local function handled(handler, ok, ...)
  if ok then return true, ... end
  return false, handler(...)
end

-- The handler runs when the failed call is over, not within it: there, after a stop, nothing would be counted.
local function xpcall(f, handler)
  return handled(handler, pcall(f))
end

local function size(list)
  if type(list) == "table" then return #list end
  return 0
end

local function unsupported(name)
  return function()
    error("call function " .. name .. " is not supported in karmada customized resourceinterpreter.", 0)
  end
end

local function advance(state, after, ...)
  state.at = after
  return ...
end

local function gmatch(text, pattern)
  local state = { at = 1 }
  return function()
    if not state.at then return nil end
    return advance(state, step(text, pattern, state.at))
  end
end

local function strings()
  local lib = { gmatch = gmatch, gfind = gmatch }
  for name, f in pairs(native.string) do lib[name] = f end
  for _, name in ipairs { "gsub", "rep", "dump" } do lib[name] = unsupported(name) end
  return lib
end

local function tables()
  return {
    concat = function(list, ...)
      charge(size(list) * 4)
      return concat(list, ...)
    end,
    insert = function(list, ...)
      if select("#", ...) ~= 2 then return insert(list, ...) end
      local position, value = ...
      charge(size(list))
      -- Before the first place nothing is moved; Lua's own would move every place from there, one by one.
      if type(position) == "number" and position < 1 and type(list) == "table" then
        list[position] = value
        return
      end
      return insert(list, position, value)
    end,
    remove = function(list, position)
      if position == nil then return remove(list) end
      charge(size(list))
      return remove(list, position)
    end,
    sort = function(list, less)
      charge(size(list) * 16)
      -- What is compared within the library is not counted, and some orders take it a square of the size.
      return sort(list, less or ascending)
    end,
    maxn = function(list)
      local count = 0
      for _ in pairs(list) do count = count + 1 end
      charge(count)
      return maxn(list)
    end,
    getn = function(list) return #list end,
  }
end

local function numbers()
  local lib = {}
  for name, f in pairs(constants) do lib[name] = f end
  -- The same numbers in every call: what a script answers depends on what it is asked alone.
  local seed = 42
  lib.randomseed = function(value) seed = floor(tonumber(value) or 0) % 2147483646 + 1 end
  lib.random = function(low, high)
    seed = seed * 16807 % 2147483647
    local share = seed / 2147483647
    if low == nil then return share end
    if high == nil then low, high = 1, low end
    if low > high then error("bad argument to 'random' (interval is empty)", 2) end
    return floor(share * (high - low + 1)) + low
  end
  return lib
end

local function copy(from)
  local to = {}
  for name, value in pairs(from) do to[name] = value end
  return to
end

local function fresh()
  local env = {
    assert = assert, error = error, ipairs = ipairs, next = next, pairs = pairs, select = select,
    tonumber = tonumber, tostring = tostring, type = type, unpack = unpack, pcall = pcall, xpcall = xpcall,
    print = function() end,
    _VERSION = "Lua 5.1",
    string = strings(), table = tables(), math = numbers(), os = copy(native.os),
    package = { loadlib = function() error("loadlib is not supported", 0) end, preload = {}, loaded = {} },
  }
  for _, name in ipairs {
    "collectgarbage", "dofile", "getfenv", "getmetatable", "load", "loadfile", "loadstring", "rawequal", "rawget",
    "rawset", "setfenv", "setmetatable", "module", "newproxy",
  } do
    env[name] = unsupported(name)
  end
  env._G = env
  local known = { kube = copy(native.kube), string = env.string, table = env.table, math = env.math, os = env.os }
  local loaded, preload = env.package.loaded, env.package.preload
  env.require = function(name)
    local found = loaded[name] or known[name]
    if found ~= nil then return found end
    local load = preload[name]
    if type(load) ~= "function" then error("module " .. tostring(name) .. " not found", 2) end
    found = load(name)
    if found == nil then found = true end
    loaded[name] = found
    return found
  end
  return env
end

-- The second are the methods of strings, which no script can change.
return fresh, strings()
