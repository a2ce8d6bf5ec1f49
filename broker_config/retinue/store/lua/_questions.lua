-- Making known what a run asks. What a child in the background asks the model of the run that started it stands
-- there too: '?' in that run's :bg, instead of ''. `nq` of the child's record counts such questions among its open
-- requests: for them no human is awaited. Needs _clock, _deadline, _marks, _usage, _queue and _asked.

-- The event of a request.
local function tell_request(events, id, slot, raw)
  local request = parse_request(raw)
  local iteration, index = string.match(slot, '^(%d+):(%d+)$')
  redis.call('RPUSH', events, '{"e":"' .. request.kind .. '.requested","r":"' .. id .. '","t":' .. now .. ',"iteration":'
    .. iteration .. ',"index":' .. index .. ',"argument_hash":"' .. request.hash .. '","expires_ms":'
    .. string.format('%.0f', request.expires) .. ',"audience":"' .. request.audience .. '","tool":' .. request.tool .. ','
    .. request.rest .. '}')
end

-- Whoever waits for a run, or for one above it, can act on what it asks.
local function wake_watchers(T, P, id)
  while id and id ~= '' do
    redis.call('PUBLISH', P .. 'wake', id .. ' ASKED')
    id = redis.call('HGET', T .. 'run:' .. id, 'par')
  end
end

-- A child in the background has ended, or it asks: closes what waits for it. Fields of such entries are
-- <slot>@<child>; a call that waits for any of its children (any:<child>) waits no longer for the others, and
-- once one of them asks, no call does.
local function close_waits(entries, child, asks)
  local all, over = redis.call('HGETALL', entries), {}
  for n = 1, #all, 2 do
    if string.match(all[n], '@(.+)$') == child then
      redis.call('HDEL', entries, all[n])
      if asks or string.sub(all[n + 1], 1, 4) == 'any:' then over[string.match(all[n], '^(.+)@')] = true end
    end
  end
  for n = 1, #all, 2 do
    if over[string.match(all[n], '^(.+)@') or ''] then redis.call('HDEL', entries, all[n]) end
  end
end

-- Whether the run was started in the background by one that is live.
local function has_model_above(T, id, parent)
  return parent ~= '' and redis.call('HEXISTS', T .. 'run:' .. parent .. ':bg', id) == 1
end

-- Lets the parent know. Returns its wake-up, if it waited for the child and for nothing else, or nil.
local function ask_parent(T, P, tenant, id, parent, questions)
  local run, entries = T .. 'run:' .. parent, T .. 'run:' .. parent .. ':e'
  redis.call('HINCRBY', T .. 'run:' .. id, 'nq', questions)
  redis.call('HSET', run .. ':bg', id, '?')
  if string.sub(redis.call('HGET', run, 'ph'), 1, 7) ~= 'waiting' then return nil end
  close_waits(entries, id, true)
  if redis.call('EXISTS', entries) == 1 then return nil end
  return queue_run(T, P, tenant, parent, now)
end

-- One of a run's questions was closed, by whomever.
local function settle_question(T, id, parent)
  if redis.call('HINCRBY', T .. 'run:' .. id, 'nq', -1) > 0 then return end
  local run = T .. 'run:' .. parent
  if redis.call('HGET', run .. ':bg', id) == '?' then redis.call('HSET', run .. ':bg', id, '') end
end

local function pass_on(T, P, tenant, id)
  local run = T .. 'run:' .. id
  local f = redis.call('HMGET', run, 'root', 'path', 'ab', 'na', 'nq')
  if not f[1] or marked(T, f[1], f[2], tonumber(f[3])) then return end
  for _, found in ipairs(open_requests(run)) do
    if parse_request(found[2]).audience == 'parent' then
      local asked = string.gsub(found[2], '"audience":"parent"', '"audience":"user"', 1)
      redis.call('HSET', run .. ':a', found[1], asked)
      tell_request(T .. 'tree:' .. f[1] .. ':ev', id, found[1], asked)
    end
  end
  redis.call('HDEL', run, 'nq')
  if f[4] == f[5] then count_awaited(T, P, tenant, id, 1) end
  wake_watchers(T, P, id)
end

-- The run has ended: its children that go on ask a human what they asked its model.
local function pass_on_questions(T, P, tenant, id)
  local children = redis.call('HGETALL', T .. 'run:' .. id .. ':bg')
  for n = 1, #children, 2 do
    if children[n + 1] == '?' then pass_on(T, P, tenant, children[n]) end
  end
end
