#!lua flags=allow-oom
-- Gives a claimed run back to its queue, for another process or a later time.
-- KEYS[1] record
-- ARGV 1 T, 2 P, 3 tenant, 4 id, 5 epoch, 6 token, 7 operation, 8 how often it may be given back within one iteration
--   before it ends with INTERNAL_ERROR ('' = the process stops, which does not count), 9 TTL s of the dead letter of a
--   run that it gives up, 10 most of these
-- Replies {QUEUED, wake-up, wake-ups by freed budget}; {ENDED, state, parent's wake-up or nothing, wake-ups by
--   freed budget}; {STALE}
--!include _clock
--!include _deadline
--!include _marks
--!include _usage
--!include _count
--!include _queue
--!include _account
--!include _budget
--!include _asked
--!include _questions
--!include _requests
--!include _end
--!include _bury
--!include _disown
local T, P, tenant, id, run = ARGV[1], ARGV[2], ARGV[3], ARGV[4], KEYS[1]
local f = redis.call('HMGET', run, 'ep', 'tok', 'op', 'rp', 'own')
if not f[1] then return { 'STALE' } end
if f[3] == ARGV[7] and f[4] ~= '' then return { 'QUEUED', wake_up(T, id, f[4]) } end
if f[1] ~= ARGV[5] or f[2] ~= ARGV[6] then return { 'STALE' } end

local ended = ARGV[8] ~= '' and disown(T, P, tenant, id, now, ARGV[8], ARGV[9], ARGV[10])
if ended then return ended end
redis.call('SREM', P .. 'own:' .. f[5], tenant .. '/' .. id)
local wakeup = queue_run(T, P, tenant, id, now)
redis.call('HSET', run, 'op', ARGV[7], 'rp', wakeup[2])
return { 'QUEUED', wakeup, settle_budget(T, P, tenant, id) }
