-- What a run uses counts for all the runs above it as well, at once. The sums over what is below a run stand on its
-- record: x<name>, and y<name> for what was used after its end, which is no part of its result. Needs _clock.

-- The records of the runs above, nearest first, as far as they are kept.
local function records_above(T, root, path, parent)
  local found, id = {}, parent
  while id ~= '' do
    local above = redis.call('HGET', T .. 'run:' .. id, 'par')
    if not above then break end
    found[#found + 1] = T .. 'run:' .. id
    id = above
  end
  if id == '' then return found end
  -- One has expired under a run that it abandoned. Those further up that are live are found by their paths.
  local prefixes = {}
  for stop in string.gmatch(path, '()/') do prefixes[#prefixes + 1] = string.sub(path, 1, stop) end
  for n = #prefixes - #found - 2, 1, -1 do
    local from, to = '[' .. prefixes[n] .. ' ', '(' .. prefixes[n] .. '!'
    local entry = redis.call('ZRANGE', T .. 'tree:' .. root .. ':live', from, to, 'BYLEX', 'LIMIT', 0, 1)[1]
    local run = T .. 'run:' .. (entry and string.match(entry, ' (.+)$') or root)
    if (entry or n == 1) and redis.call('EXISTS', run) == 1 then found[#found + 1] = run end
  end
  return found
end

-- How the sums of a record are led.
local function lead_of(run) return redis.call('HEXISTS', run, 'fi') == 1 and 'y' or 'x' end

-- Adds to the sums of the runs above: pairs of a name and a count, '' and '0' being nothing to add.
local function add_above(T, root, path, parent, ...)
  if parent == '' then return end
  local sums = { ... }
  for _, run in ipairs(records_above(T, root, path, parent)) do
    local lead = lead_of(run)
    for n = 1, #sums, 2 do
      if sums[n + 1] ~= '' and sums[n + 1] ~= '0' then redis.call('HINCRBY', run, lead .. sums[n], sums[n + 1]) end
    end
  end
end

-- What the run costs is not known, and so what the runs above it cost in all.
local function lose_cost(T, id, root, path, parent)
  if redis.call('HSETNX', T .. 'run:' .. id, 'unk', 1) == 1 then add_above(T, root, path, parent, 'unk', '1') end
end

-- A run that was suspended goes on, or ends: counts how long it waited.
local function count_wait(T, id, root, path, parent)
  local run = T .. 'run:' .. id
  local since = redis.call('HGET', run, 'ws')
  if not since then return end
  local waited = string.format('%.0f', math.max(0, now_ms - tonumber(since)))
  redis.call('HDEL', run, 'ws')
  redis.call('HINCRBY', run, 'wms', waited)
  add_above(T, root, path, parent, 'wms', waited)
end
