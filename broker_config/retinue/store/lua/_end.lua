-- The end of a run, in all that it leaves behind.

local function is_live(T, id)
  local f = redis.call('HMGET', T .. 'run:' .. id, 'st', 'fi')
  return f[1] and not f[2]
end

local function expire_thread(T, thread, ttl)
  redis.call('EXPIRE', T .. 'th:' .. thread, ttl)
  redis.call('EXPIRE', T .. 'th:' .. thread .. ':ow', ttl)
end

-- The threads of a conversation's pairs are kept as long as its own. One that is still written to expires
-- from its writer's end on.
local function expire_pairs(T, thread, ttl)
  for _, pair in ipairs(redis.call('SMEMBERS', T .. 'th:' .. thread .. ':ps')) do
    if redis.call('EXISTS', T .. 'th:' .. pair .. ':by') == 0 then expire_thread(T, pair, ttl) end
  end
  redis.call('EXPIRE', T .. 'th:' .. thread .. ':ps', ttl)
end

-- Says until when anything is kept of a turn of a conversation, and forgets others of which nothing is.
local function expire_turns(T, turns, id, ttl)
  redis.call('ZADD', turns, string.format('%.0f', now_ms + 1000 * ttl), id)
  for _, old in ipairs(redis.call('ZRANGE', turns, '(0', now, 'BYSCORE', 'LIMIT', 0, 10)) do
    if redis.call('EXISTS', T .. 'tree:' .. old) == 0 then redis.call('ZREM', turns, old) end
  end
  redis.call('PEXPIREAT', turns, redis.call('ZRANGE', turns, -1, -1, 'WITHSCORES')[2])
end

-- Ends a run: steers that it never saw, its event, the indexes, the times to live, its parent's
-- journal. `reply` is the JSON string that the parent's model reads. Returns the parent's wake-up or
-- nil. Needs _clock, _deadline, _marks, _count, _queue, _account, _budget, _asked, _questions and _requests.
local function close_run(T, P, tenant, id, now, state, class, reply)
  local run, member = T .. 'run:' .. id, tenant .. '/' .. id
  local f = redis.call('HMGET', run, 'root', 'par', 'pc', 'path', 'q', 'own', 'ns', 'nd', 'ttl', 'th', 'tt', 'co', 'lc', 'pt',
    'cr', 'na', 'gc', 'gr', 'hw', 'ws')
  local tree = T .. 'tree:' .. f[1]
  local events, ttl = tree .. ':ev', tonumber(f[9])
  for n = tonumber(f[8]) + 1, tonumber(f[7]) do
    local steer = redis.call('HMGET', run .. ':s', 'i' .. n, 't' .. n)
    redis.call('HSET', run .. ':s', '#' .. steer[1], 'm')
    redis.call('RPUSH', events, '{"e":"steer.missed","r":"' .. id .. '","t":' .. now .. ',"steer":"' .. steer[1]
      .. '","text":' .. steer[2] .. '}')
  end
  if f[16] then
    if f[16] ~= '0' then withdraw_requests(T, id, f[1], f[4]) end
    redis.call('EXPIRE', run .. ':a', ttl)
  end
  if f[19] then
    redis.call('HDEL', run, 'hw', 'hs')
    count_awaited(T, P, tenant, f[2], -tonumber(f[19]))
  end
  if f[20] then count_wait(T, id, f[1], f[4], f[2]) end
  redis.call('HSET', run, 'st', state, 'ph', '', 'tok', '', 'own', '', 'cls', class, 'up', now, 'fi', now)
  redis.call('RPUSH', events, '{"e":"run.finished","r":"' .. id .. '","t":' .. now .. ',"state":"' .. state
    .. '","classification":' .. (class == '' and 'null' or '"' .. class .. '"') .. '}')
  -- What a process holds is in no queue.
  if f[6] ~= '' then redis.call('SREM', P .. 'own:' .. f[6], member) else redis.call('ZREM', P .. 'q:' .. f[5], member) end
  redis.call('ZREM', tree .. ':live', f[4] .. ' ' .. id)
  if tonumber(f[13]) > 0 then
    -- Children that are still live follow by this mark; the timer sweeps until none is left.
    redis.call('HSETNX', tree .. ':m', f[4], 'e')
    redis.call('ZADD', P .. 'due', 0, member)
  else
    redis.call('ZREM', P .. 'due', member)
  end
  pass_on_questions(T, P, tenant, id)
  redis.call('DEL', run .. ':j', run .. ':e', run .. ':c', run .. ':bg')
  -- Its result was written with a time to live.
  for _, key in ipairs({ run, run .. ':part', run .. ':pg' }) do
    redis.call('EXPIRE', key, ttl)
  end
  if f[7] ~= '0' then redis.call('EXPIRE', run .. ':s', ttl) end
  -- A root's conversation may go on for as long as its thread is kept: the next run needs the request.
  local thread, longest = T .. 'th:' .. f[10], math.max(ttl, tonumber(f[11]))
  redis.call('EXPIRE', run .. ':req', f[2] == '' and longest or ttl)
  if f[2] == '' and f[10] ~= id then expire_turns(T, thread .. ':tn', id, longest) end
  local shared = f[10] ~= id
  if shared and redis.call('GET', thread .. ':by') == id then
    redis.call('DEL', thread .. ':by')
    shared = false
  end
  -- Never under another run that writes to it, nor under a conversation whose members may write to it again.
  if not shared and not (f[17] and is_live(T, f[17])) then expire_thread(T, f[10], f[11]) end
  if not f[17] and (f[18] or f[10] ~= id) then expire_pairs(T, f[10], f[11]) end
  if f[12] ~= '' then redis.call('EXPIRE', T .. 'corr:' .. f[12], ttl) end
  if redis.call('HINCRBY', tree, 'live', -1) == 0 then
    redis.call('ZREM', T .. 'trees', f[1])
    for _, suffix in ipairs({ '', ':ev', ':m', ':g', ':sp', ':b' }) do redis.call('EXPIRE', tree .. suffix, ttl) end
  end
  redis.call('PUBLISH', P .. 'wake', id .. ' ' .. state)
  if f[2] == '' then return nil end
  local parent = T .. 'run:' .. f[2]
  local p = redis.call('HMGET', parent, 'ph', 'fi', 'it')
  if not p[1] then return nil end
  local left = redis.call('HINCRBY', parent, 'lc', -1)
  -- Its timer was kept for its children alone.
  if p[2] and left <= 0 then redis.call('ZREM', P .. 'due', tenant .. '/' .. f[2]) end
  -- A tool's code that is run again asks for the same child: it finds it here when the record is gone.
  if not p[2] and f[3] == '' then redis.call('SADD', parent .. ':c', id) end
  if p[2] or f[3] == '' then return nil end
  if f[3] == 'bg' then
    -- Kept beside the parent, for the child may expire before the parent asks.
    redis.call('HSET', parent .. ':bg', id, reply)
    if string.sub(p[1], 1, 7) ~= 'waiting' then return nil end
    close_waits(parent .. ':e', id)
    if redis.call('EXISTS', parent .. ':e') == 1 then return nil end
    return queue_run(T, P, tenant, f[2], now)
  end
  local iteration, index = string.match(f[3], '^(%d+):(%d+)$')
  -- A parent that went on without this answer must not find it in its journal as an orphan.
  if iteration ~= p[3] then return nil end
  if redis.call('HSETNX', parent .. ':j', f[3], reply) == 1 then
    count_call(T, f[2], f[14], now_ms - tonumber(f[15]))
    redis.call('RPUSH', events, '{"e":"tool.finished","r":"' .. f[2] .. '","t":' .. now .. ',"iteration":' .. iteration
      .. ',"index":' .. index .. ',"tool":' .. f[14] .. ',"ok":' .. tostring(state == 'SUCCEEDED') .. ',"duration_ms":'
      .. string.format('%.0f', now_ms - tonumber(f[15])) .. '}')
  end
  if string.sub(p[1], 1, 7) ~= 'waiting' then return nil end
  redis.call('HDEL', parent .. ':e', f[3])
  if redis.call('EXISTS', parent .. ':e') == 1 then return nil end
  return queue_run(T, P, tenant, f[2], now)
end

-- Keeps an ended run for those that are to be told of its end, who stand on its record: d the task of the
-- application that its launch names, s hooks of workers, w webhooks. The letter is a copy of its record, and of its
-- launch, which may both expire before everyone is told.
local LETTER_KEPT_S = 604800

local function put_out(T, P, tenant, id, now)
  local run = T .. 'run:' .. id
  local told = redis.call('HGET', run, 'tl')
  if not told then return end
  redis.call('COPY', run, T .. 'out:' .. id, 'REPLACE')
  redis.call('COPY', run .. ':req', T .. 'out:' .. id .. ':req', 'REPLACE')
  redis.call('EXPIRE', T .. 'out:' .. id, LETTER_KEPT_S)
  redis.call('EXPIRE', T .. 'out:' .. id .. ':req', LETTER_KEPT_S)
  for kind in string.gmatch(told, '%a') do
    redis.call('HSET', T .. 'out:' .. id, 'to:' .. kind, '')
    redis.call('ZADD', P .. 'out:' .. kind, now, tenant .. '/' .. id)
    redis.call('EXPIRE', P .. 'out:' .. kind, LETTER_KEPT_S)
  end
end

-- As close_run, and frees what the run held of budgets. Returns the parent's wake-up or nil, and those of runs that
-- waited for budget.
local function end_run(T, P, tenant, id, now, state, class, reply)
  local wakeup = close_run(T, P, tenant, id, now, state, class, reply)
  local woken = settle_budget(T, P, tenant, id)
  put_out(T, P, tenant, id, now)
  return wakeup, woken
end
