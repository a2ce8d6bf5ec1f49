-- Keeps what a run asked for, and why it was given up, as a dead letter: it outlives the run, and can be run
-- again. Letters are bounded in age and in number: the oldest go first.
local function bury(T, id, now, class, ttl_s, most)
  local f = redis.call('HMGET', T .. 'run:' .. id, 'ag', 'sess', 'root', 'par', 'cr', 'ls', 'im')
  local request = redis.call('GET', T .. 'run:' .. id .. ':req')
  redis.call('HSET', T .. 'dead:' .. id, 'ag', f[1], 'sess', f[2], 'root', f[3], 'par', f[4], 'cr', f[5], 'ls', f[6], 'im',
    f[7], 'fi', now, 'cls', class, 'req', request)
  redis.call('EXPIRE', T .. 'dead:' .. id, ttl_s)
  redis.call('ZADD', T .. 'dead', now, id)
  redis.call('EXPIRE', T .. 'dead', ttl_s)
  local late = string.format('%.0f', tonumber(now) - 1000 * tonumber(ttl_s))
  for _, old in ipairs(redis.call('ZRANGE', T .. 'dead', '-inf', late, 'BYSCORE', 'LIMIT', 0, 100)) do
    redis.call('ZREM', T .. 'dead', old)
  end
  for _, old in ipairs(redis.call('ZRANGE', T .. 'dead', 0, -1 - tonumber(most))) do
    redis.call('ZREM', T .. 'dead', old)
    redis.call('DEL', T .. 'dead:' .. old)
  end
end
