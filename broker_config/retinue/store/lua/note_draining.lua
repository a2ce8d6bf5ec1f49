#!lua flags=allow-oom
-- Notes that the process which holds a run drains: readers are shown so for as long as this attempt is at work.
-- KEYS[1] record
-- ARGV 1 T, 2 P, 3 tenant, 4 id, 5 epoch, 6 token
-- Replies {OK}; {STALE}
--!include _clock
local run = KEYS[1]
local f = redis.call('HMGET', run, 'ep', 'tok', 'dr')
if not f[1] or f[1] ~= ARGV[5] or f[2] ~= ARGV[6] then return { 'STALE' } end
if f[3] == ARGV[6] then return { 'OK' } end

redis.call('HSET', run, 'dr', ARGV[6], 'up', now)
return { 'OK' }
