#!lua flags=allow-oom
-- Takes a run from a process that is dead, that says it does not run it (the reply to its claim was
-- lost, or its attempt failed to end it), or that stops, and queues it. A loss counts where the run's own
-- code may have been the cause; so does being disowned again and again without an iteration further.
-- KEYS[1] record
-- ARGV 1 T, 2 P, 3 tenant, 4 id, 5 process, 6 dead|idle|stopping, 7 losses before WORKER_LOST, or
--   before INTERNAL_ERROR where it is disowned, 8 TTL s of the dead letter of a run that it gives up, 9 most of these
-- Replies {QUEUED, wake-up, wake-ups by freed budget}; {ENDED, state, parent's wake-up or nothing, wake-ups by
--   freed budget}; {NOT_OWNER}
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
local f = redis.call('HMGET', run, 'own', 'ph', 'ls', 'root', 'ep', 'path', 'par')
if not f[1] or f[1] ~= ARGV[5] then
  redis.call('SREM', P .. 'own:' .. ARGV[5], tenant .. '/' .. id)
  return { 'NOT_OWNER' }
end

local counted = ARGV[6] == 'dead' and (f[2] == 'claimed' or f[2] == 'tool_call')
local losses = tonumber(f[3])
if counted then losses = redis.call('HINCRBY', run, 'ls', 1) end
if ARGV[6] == 'dead' then
  redis.call('HINCRBY', run, 'al', 1)
  add_above(T, f[4], f[6], f[7], 'at', '1')
  redis.call('RPUSH', T .. 'tree:' .. f[4] .. ':ev', '{"e":"attempt.lost","r":"' .. id .. '","t":' .. now
    .. ',"attempt":' .. f[5] .. ',"process":"' .. ARGV[5] .. '","counted":' .. tostring(counted) .. '}')
end
if losses >= tonumber(ARGV[7]) then
  bury(T, id, now, 'WORKER_LOST', ARGV[8], ARGV[9])
  local wakeup, woken = end_run(T, P, tenant, id, now, 'FAILED', 'WORKER_LOST',
    '"[WORKER_LOST] This agent failed: its worker process was lost several times."')
  return { 'ENDED', 'FAILED', wakeup or false, woken }
end
local ended = ARGV[6] == 'idle' and disown(T, P, tenant, id, now, ARGV[7], ARGV[8], ARGV[9])
if ended then return ended end
redis.call('SREM', P .. 'own:' .. ARGV[5], tenant .. '/' .. id)
local wakeup = queue_run(T, P, tenant, id, now)
return { 'QUEUED', wakeup, settle_budget(T, P, tenant, id) }
