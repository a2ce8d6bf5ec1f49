-- Lanes: pending deliveries to one place, which one process at a time works on. W is the prefix of all keys of
-- webhooks. Needs _clock.
local DELIVERY_KEPT_S = 604800

-- A lane's turn comes with its first delivery; one without any has none. Nobody works on it from now on.
local function await_turn(W, tenant, lane)
  local member = tenant .. '/' .. lane
  local first = redis.call('ZRANGE', W .. 'lane:' .. tenant .. ':' .. lane, 0, 0, 'WITHSCORES')
  redis.call('HDEL', W .. 'held', member)
  if first[1] then
    -- Not before those that wait already: a lane that fails again and again must not stand before the rest.
    redis.call('ZADD', W .. 'due', string.format('%.0f', math.max(tonumber(first[2]), now_ms)), member)
  else
    redis.call('ZREM', W .. 'due', member)
  end
end

-- Puts a delivery into its lane. Whoever works on that looks again before letting go.
local function queue_delivery(W, tenant, lane, id, at)
  local key, member = W .. 'lane:' .. tenant .. ':' .. lane, tenant .. '/' .. lane
  redis.call('ZADD', key, at, id)
  redis.call('EXPIRE', key, DELIVERY_KEPT_S)
  local held_until = redis.call('HEXISTS', W .. 'held', member) == 1 and redis.call('ZSCORE', W .. 'due', member)
  if not held_until or tonumber(held_until) <= now_ms then await_turn(W, tenant, lane) end
end

local function forget_delivery(W, tenant, endpoint, id)
  redis.call('ZREM', W .. 'log:' .. tenant .. ':' .. endpoint, id)
  redis.call('ZREM', W .. 'over:' .. tenant .. ':' .. endpoint, id)
  redis.call('UNLINK', W .. 'msg:' .. tenant .. ':' .. id)
end

-- Keeps a delivery that is over: of its endpoint so many, and none for longer than a week.
local function keep_ended(W, tenant, endpoint, id, most)
  local over = W .. 'over:' .. tenant .. ':' .. endpoint
  redis.call('ZADD', over, now, id)
  redis.call('EXPIRE', over, DELIVERY_KEPT_S)
  local extra = math.min(redis.call('ZCARD', over) - most, 10)
  if extra > 0 then
    for _, old in ipairs(redis.call('ZRANGE', over, 0, extra - 1)) do forget_delivery(W, tenant, endpoint, old) end
  end
  local week_ago = string.format('%.0f', now_ms - 1000 * DELIVERY_KEPT_S)
  for _, old in ipairs(redis.call('ZRANGE', over, '-inf', week_ago, 'BYSCORE', 'LIMIT', 0, 10)) do
    forget_delivery(W, tenant, endpoint, old)
  end
end
