#!lua flags=allow-oom
-- Deletes an endpoint with its deliveries, as many as one call may; what is pending is not made any more.
-- KEYS[1] the tenant's endpoints
-- ARGV 1 W, 2 tenant, 3 id, 4 most deliveries a call
-- Replies {GONE, endpoints that the tenant has}; {MORE}
local W, tenant, id = ARGV[1], ARGV[2], ARGV[3]
local log = W .. 'log:' .. tenant .. ':' .. id
redis.call('ZREM', KEYS[1], id)
redis.call('DEL', W .. 'at:' .. tenant .. ':' .. id)
redis.call('UNLINK', W .. 'lane:' .. tenant .. ':' .. id)
redis.call('ZREM', W .. 'due', tenant .. '/' .. id)
redis.call('HDEL', W .. 'held', tenant .. '/' .. id)
local left = redis.call('ZCARD', KEYS[1])
if left == 0 then redis.call('SREM', W .. 'tenants', tenant) end
for _, delivery in ipairs(redis.call('ZRANGE', log, 0, tonumber(ARGV[4]) - 1)) do
  redis.call('UNLINK', W .. 'msg:' .. tenant .. ':' .. delivery)
  redis.call('ZREM', log, delivery)
end
if redis.call('EXISTS', log) == 1 then return { 'MORE' } end
redis.call('UNLINK', W .. 'over:' .. tenant .. ':' .. id)
return { 'GONE', left }
