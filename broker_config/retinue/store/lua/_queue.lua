-- How to wake a run: {id, wake-up number, queue, priority, agent, root, parent}.
local function wake_up(T, id, number)
  local f = redis.call('HMGET', T .. 'run:' .. id, 'q', 'pr', 'ag', 'root', 'par')
  return { id, tostring(number), f[1], f[2], f[3], f[4], f[5] }
end

-- Queues a run again and says how to wake it. Needs _usage.
local function queue_run(T, P, tenant, id, now)
  local run = T .. 'run:' .. id
  local number = redis.call('HINCRBY', run, 'wk', 1)
  local wake = wake_up(T, id, number)
  local f = redis.call('HMGET', run, 'st', 'ws', 'path')
  local state = f[1]
  if f[2] then count_wait(T, id, wake[6], f[3], wake[7]) end
  redis.call('HSET', run, 'st', state == 'STARTING' and 'RUNNING' or state, 'ph', 'queued', 'tok', '', 'own', '',
    'up', now, 'rs', 0, 'ra', 0)
  redis.call('ZADD', P .. 'q:' .. wake[3], now, tenant .. '/' .. id)
  redis.call('SADD', P .. 'queues', wake[3])
  redis.call('RPUSH', T .. 'tree:' .. wake[6] .. ':ev',
    '{"e":"run.resumed","r":"' .. id .. '","t":' .. now .. ',"wakeup":' .. number .. '}')
  return wake
end
