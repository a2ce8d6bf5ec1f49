#!lua flags=allow-oom
-- Throws a dead letter away.
-- KEYS[1] the tenant's dead letters in the run's partition
-- ARGV 1 T, 2 session or '' (any), 3 the run
-- Replies {DISCARDED}; {UNKNOWN}
local T, session, id = ARGV[1], ARGV[2], ARGV[3]
local owner = redis.call('HGET', T .. 'dead:' .. id, 'sess')
if not owner or (session ~= '' and session ~= owner) then return { 'UNKNOWN' } end

redis.call('ZREM', KEYS[1], id)
redis.call('DEL', T .. 'dead:' .. id)
return { 'DISCARDED' }
