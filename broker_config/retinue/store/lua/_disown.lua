-- Counts that a process could not go on with a run that it holds. One that gets nowhere again and again within
-- one iteration ends: {ENDED, ...}, as `take_over` answers; nil = it may be queued. Needs _bury, _end.
local function disown(T, P, tenant, id, now, most, ttl_s, letters)
  local run = T .. 'run:' .. id
  local f = redis.call('HMGET', run, 'im', 'di')
  local iteration, count = string.match(f[2] or '', '^(%d+):(%d+)$')
  count = iteration == f[1] and tonumber(count) + 1 or 1
  redis.call('HSET', run, 'di', f[1] .. ':' .. count)
  if count < tonumber(most) then return nil end
  bury(T, id, now, 'INTERNAL_ERROR', ttl_s, letters)
  local wakeup, woken = end_run(T, P, tenant, id, now, 'FAILED', 'INTERNAL_ERROR',
    '"[INTERNAL_ERROR] This agent failed: its workers could not go on with it."')
  return { 'ENDED', 'FAILED', wakeup or false, woken }
end
