#!lua flags=allow-oom
-- Gives a claimed run back to its queue, for another process or a later time.
-- KEYS[1] record
-- ARGV 1 T, 2 P, 3 tenant, 4 id, 5 epoch, 6 token, 7 operation
-- Replies {QUEUED, wake-up, wake-ups by freed budget}; {STALE}
--!include _clock
--!include _usage
--!include _queue
--!include _account
--!include _budget
local T, P, tenant, id, run = ARGV[1], ARGV[2], ARGV[3], ARGV[4], KEYS[1]
local f = redis.call('HMGET', run, 'ep', 'tok', 'op', 'rp', 'own')
if not f[1] then return { 'STALE' } end
if f[3] == ARGV[7] and f[4] ~= '' then return { 'QUEUED', wake_up(T, id, f[4]) } end
if f[1] ~= ARGV[5] or f[2] ~= ARGV[6] then return { 'STALE' } end

redis.call('SREM', P .. 'own:' .. f[5], tenant .. '/' .. id)
local wakeup = queue_run(T, P, tenant, id, now)
redis.call('HSET', run, 'op', ARGV[7], 'rp', wakeup[2])
return { 'QUEUED', wakeup, settle_budget(T, P, tenant, id) }
