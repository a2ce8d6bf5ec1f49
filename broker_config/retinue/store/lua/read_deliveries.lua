#!lua flags=no-writes
-- A page of the deliveries of an endpoint, the last queued first.
-- KEYS[1] its log
-- ARGV 1 W, 2 tenant, 3 the last delivery of the page before or '', 4 when that was queued, ms, 5 most
-- Replies {{id, delivery}...}
local reply, start = {}, 0
if ARGV[3] ~= '' then
  local rank = redis.call('ZREVRANK', KEYS[1], ARGV[3])
  -- It may have been forgotten, or queued again, since.
  local same = rank and tonumber(redis.call('ZSCORE', KEYS[1], ARGV[3])) == tonumber(ARGV[4])
  start = same and rank + 1 or redis.call('ZCOUNT', KEYS[1], '(' .. ARGV[4], '+inf')
end
for _, id in ipairs(redis.call('ZRANGE', KEYS[1], start, start + tonumber(ARGV[5]) - 1, 'REV')) do
  local message = redis.call('HGETALL', ARGV[1] .. 'msg:' .. ARGV[2] .. ':' .. id)
  reply[#reply + 1] = { id, message }
end
return reply
