#!lua flags=allow-oom
-- What a due timer asks for: the end of a run that is out of time and on no worker, or on one that
-- does not end it, the denial of what a human did not decide in time, a further look at a budget that others
-- hold, or a sweep.
-- KEYS[1] record
-- ARGV 1 T, 2 P, 3 tenant, 4 id, 5 ms until a run that is still on a worker is looked at again, 6 ms that
--   its worker has after the deadline to end it
-- Replies {SWEEP}; {ENDED, state, parent's wake-up or nothing, wake-ups by freed budget}; {QUEUED, wake-up, more wake-ups};
--   {LATER}; {NOTHING}
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
--!include _stop
local T, P, tenant, id, run = ARGV[1], ARGV[2], ARGV[3], ARGV[4], KEYS[1]
local due, member = P .. 'due', tenant .. '/' .. id
local f = redis.call('HMGET', run, 'st', 'own', 'dl', 'root', 'path', 'ab', 'fi', 'lc', 'na', 'hw', 'bk')
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
if not out_of_time(deadline, f[10]) then
  local next_ms, wakeup = math.huge, nil
  for _, open in ipairs(f[9] and f[9] ~= '0' and open_requests(run) or {}) do
    local request = parse_request(open[2])
    if request.expires > now_ms then
      next_ms = math.min(next_ms, request.expires)
    else
      wakeup = expire_request(T, P, tenant, id, open[1], request) or wakeup
    end
  end
  -- While the deadline stands still it is not due; whoever lets it go on, as the last request may have, says when.
  local g = redis.call('HMGET', run, 'dl', 'hw')
  if g[1] ~= '0' and not g[2] then next_ms = math.min(next_ms, tonumber(g[1])) end
  local freed, tree, entry = {}, T .. 'tree:' .. f[4], f[5] .. ' ' .. id
  if f[11] and redis.call('ZSCORE', tree .. ':bw', entry) then
    local budgets = budgets_of(T, P, tenant, f[4])
    freed = budgets.wake()
    if redis.call('ZSCORE', tree .. ':bw', entry) then next_ms = math.min(next_ms, budgets.look_again(id)) end
  end
  if next_ms == math.huge then
    redis.call('ZREM', due, member)
  else
    redis.call('ZADD', due, string.format('%.0f', next_ms), member)
  end
  -- Who waits for budget asks nothing of a human.
  wakeup = wakeup or table.remove(freed, 1)
  if wakeup then return { 'QUEUED', wakeup, freed } end
  return { next_ms == math.huge and 'NOTHING' or 'LATER' }
end
if f[2] ~= '' and now_ms < deadline + tonumber(ARGV[6]) then
  -- Its worker watches the deadline too; should the worker die, take_over queues it and claim ends it.
  redis.call('ZADD', due, later, member)
  return { 'LATER' }
end
local state, wakeup, woken = stop_run(T, P, tenant, id, now, 'd')
return { 'ENDED', state, wakeup or false, woken }
