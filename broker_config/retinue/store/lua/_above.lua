-- What the runs above a new one have to say to its launch: their caps on all below them, and their own work.

-- The lower of two counts, either of which may be '' (none).
local function lowest(one, other)
  if one == '' or other == '' then return one == '' and other or one end
  return string.format('%.0f', math.min(tonumber(one), tonumber(other)))
end

-- The runs at `path` and above it, without the root, that cap how many runs there may ever be below them. The
-- counts stand in the tree's hash, which outlives the records of ended runs.
local function capped_above(T, root, path)
  local fields, capped = {}, {}
  for stop in string.gmatch(path, '()/') do
    local prefix = string.sub(path, 1, stop)
    fields[#fields + 1] = 'mx:' .. prefix
    fields[#fields + 1] = 'n:' .. prefix
  end
  if #fields <= 2 then return capped end
  local values = redis.call('HMGET', T .. 'tree:' .. root, unpack(fields, 3))
  for n = 1, #values, 2 do
    if values[n] then
      local prefix = string.sub(fields[n + 2], 4)
      capped[#capped + 1] = { path = prefix, most = tonumber(values[n]), count = tonumber(values[n + 1]) }
    end
  end
  return capped
end

-- A digest of work is three in one, of 10 characters each: agent and goal, the goal, and what is given along
-- with it, if anything is. An ancestor that was handed off is at its goal as two agents. What is given along
-- makes the same goal another one, unless the ancestor was given the same.
local function is_same_work(asked, agent, work, active_agent)
  local given = string.sub(asked, 21)
  if given ~= '' and given ~= string.sub(work, 21) then return false end
  return string.sub(asked, 1, 10) == string.sub(work, 1, 10)
    or (string.sub(asked, 11, 20) == string.sub(work, 11, 20) and agent == active_agent)
end

-- The first run from `parent` up that was asked to do what one of the new runs is to do, or nil. `fresh` are
-- their places in ARGV.
local function same_work_above(T, parent, fresh)
  local asked = {}
  for _, at in ipairs(fresh) do
    if ARGV[at + 27] ~= '' then asked[#asked + 1] = at end
  end
  local above = parent
  while #asked > 0 and above and above ~= '' do
    local f = redis.call('HMGET', T .. 'run:' .. above, 'wd', 'ag', 'par')
    for _, at in ipairs(f[1] and asked or {}) do
      if is_same_work(ARGV[at + 27], ARGV[at + 3], f[1], f[2]) then return above end
    end
    above = f[3]
  end
  return nil
end
