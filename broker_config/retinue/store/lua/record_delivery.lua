#!lua flags=allow-oom
-- Writes down what came of a delivery that a process had taken.
-- KEYS[1] the delivery
-- ARGV 1 W, 2 tenant, 3 id, 4 token that it was taken with, 5 state (p again pending, d delivered, f failed), 6 ms
--   until the next attempt, 7 attempts that were made (0|1), 8 status that was answered or '', 9 ms that it took, 10
--   what went wrong or '', 11 why the endpoint is turned off or '', 12 most deliveries that are over of an endpoint
-- Replies {OK}; {STALE} (written down already, taken by another, or gone)
--!include _clock
--!include _lane
local W, tenant, id = ARGV[1], ARGV[2], ARGV[3]
local f = redis.call('HMGET', KEYS[1], 'tok', 'ep', 'ln')
if f[1] ~= ARGV[4] then return { 'STALE' } end
local lane, endpoint = W .. 'lane:' .. tenant .. ':' .. f[3], W .. 'at:' .. tenant .. ':' .. f[2]
local again = string.format('%.0f', now_ms + tonumber(ARGV[6]))
redis.call('HSET', KEYS[1], 'tok', '', 'st', ARGV[5], 'code', ARGV[8], 'dur', ARGV[9], 'err', ARGV[10])
if ARGV[7] == '1' then
  redis.call('HINCRBY', KEYS[1], 'n', 1)
  redis.call('HSET', KEYS[1], 'la', now)
end
redis.call('EXPIRE', KEYS[1], DELIVERY_KEPT_S)
if ARGV[5] == 'p' then
  redis.call('HSET', KEYS[1], 'nx', again)
  redis.call('ZADD', lane, again, id)
  redis.call('EXPIRE', lane, DELIVERY_KEPT_S)
  redis.call('EXPIRE', W .. 'log:' .. tenant .. ':' .. f[2], DELIVERY_KEPT_S)
else
  redis.call('HDEL', KEYS[1], 'nx')
  redis.call('ZREM', lane, id)
  keep_ended(W, tenant, f[2], id, tonumber(ARGV[12]))
end
if ARGV[11] ~= '' and redis.call('EXISTS', endpoint) == 1 then
  redis.call('HSET', endpoint, 'st', 'off', 'why', ARGV[11])
end
return { 'OK' }
