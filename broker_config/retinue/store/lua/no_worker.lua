#!lua flags=allow-oom
-- Says of a queued run that no live worker can run it; it stays claimable. Only of one that was never
-- claimed: the phase belongs to PENDING.
-- KEYS[1] record
-- ARGV 1 T, 2 P, 3 tenant, 4 id
-- Replies {OK}; {NOT_QUEUED}
local f = redis.call('HMGET', KEYS[1], 'ph', 'st')
if f[1] ~= 'queued' or f[2] ~= 'PENDING' then return { 'NOT_QUEUED' } end
redis.call('HSET', KEYS[1], 'ph', 'no_worker')
return { 'OK' }
