#!lua flags=allow-oom
-- What a due timer asks for: the end of a run that is out of time and on no worker, or on one that
-- does not end it, or a sweep.
-- KEYS[1] record
-- ARGV 1 T, 2 P, 3 tenant, 4 id, 5 ms until a run that is still on a worker is looked at again, 6 ms that
--   its worker has after the deadline to end it
-- Replies {SWEEP}; {ENDED, state, parent's wake-up or nothing}; {LATER}; {NOTHING}
--!include _clock
--!include _marks
--!include _count
--!include _queue
--!include _end
local T, P, tenant, id, run = ARGV[1], ARGV[2], ARGV[3], ARGV[4], KEYS[1]
local due, member = P .. 'due', tenant .. '/' .. id
local f = redis.call('HMGET', run, 'st', 'own', 'dl', 'root', 'path', 'ab', 'fi', 'lc')
local later = string.format('%.0f', now_ms + tonumber(ARGV[5]))
if not f[1] or (f[7] and tonumber(f[8]) <= 0) then
  redis.call('ZREM', due, member)
  return { 'NOTHING' }
end
if f[7] or marked(T, f[4], f[5], tonumber(f[6])) then
  redis.call('ZADD', due, later, member)
  return { 'SWEEP' }
end
local deadline = tonumber(f[3])
if deadline == 0 then
  redis.call('ZREM', due, member)
  return { 'NOTHING' }
end
if now_ms < deadline then
  redis.call('ZADD', due, f[3], member)
  return { 'LATER' }
end
if f[2] ~= '' and now_ms < deadline + tonumber(ARGV[6]) then
  -- Its worker watches the deadline too; should the worker die, take_over queues it and claim ends it.
  redis.call('ZADD', due, later, member)
  return { 'LATER' }
end
return { 'ENDED', 'INTERRUPTED', end_run(T, P, tenant, id, now, 'INTERRUPTED', 'DEADLINE_EXCEEDED',
  '"[DEADLINE_EXCEEDED] This agent ran out of time before it finished."') }
