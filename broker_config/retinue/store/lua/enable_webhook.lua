#!lua
-- Has an endpoint told again that was turned off; what ended meanwhile it is not told.
-- KEYS[1] the tenant's endpoints
-- ARGV 1 W, 2 tenant, 3 id
-- Replies {OK}; {UNKNOWN}
local key = ARGV[1] .. 'at:' .. ARGV[2] .. ':' .. ARGV[3]
if not redis.call('ZSCORE', KEYS[1], ARGV[3]) then return { 'UNKNOWN' } end
redis.call('HSET', key, 'st', 'on')
redis.call('HDEL', key, 'why')
return { 'OK' }
