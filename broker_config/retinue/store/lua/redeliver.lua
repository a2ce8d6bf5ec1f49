#!lua
-- Makes a delivery due at once: a pending one, or one that is over, whose attempts are counted anew.
-- KEYS[1] the delivery
-- ARGV 1 W, 2 tenant, 3 endpoint, 4 id
-- Replies {OK, delivery}; {OFF} (its endpoint is turned off); {UNKNOWN}
--!include _clock
--!include _lane
local W, tenant, endpoint, id = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local f = redis.call('HMGET', KEYS[1], 'ep', 'ln', 'st')
if f[1] ~= endpoint then return { 'UNKNOWN' } end
local at = redis.call('HMGET', W .. 'at:' .. tenant .. ':' .. endpoint, 'sec', 'st')
if not at[1] then return { 'UNKNOWN' } end
if at[2] == 'off' then return { 'OFF' } end
local log = W .. 'log:' .. tenant .. ':' .. endpoint
if f[3] ~= 'p' then
  redis.call('HSET', KEYS[1], 'st', 'p', 'n', 0, 'qd', now)
  redis.call('ZREM', W .. 'over:' .. tenant .. ':' .. endpoint, id)
  redis.call('ZADD', log, now, id)
end
redis.call('HSET', KEYS[1], 'nx', now)
redis.call('EXPIRE', KEYS[1], DELIVERY_KEPT_S)
redis.call('EXPIRE', log, DELIVERY_KEPT_S)
queue_delivery(W, tenant, f[2], id, now)
return { 'OK', redis.call('HGETALL', KEYS[1]) }
