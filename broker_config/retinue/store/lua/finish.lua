#!lua flags=allow-oom
-- Ends a run by the worker that holds it. A natural finish that a steer has overtaken goes on instead.
-- KEYS[1] record
-- ARGV 1 T, 2 P, 3 tenant, 4 id, 5 epoch, 6 token, 7 operation, 8 state, 9 classification or '', 10 result JSON,
--   11 reply for the parent's model as a JSON string, 12 natural (1|0), 13.. pairs of slot (iteration:index) and the
--   head of its message: calls that were answered with the result, for whoever writes to the thread next
-- Replies {ENDED, state, parent's wake-up or nothing, wake-ups by freed budget}; {STEERS}; {STALE}
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
local T, P, tenant, id, run = ARGV[1], ARGV[2], ARGV[3], ARGV[4], KEYS[1]
local f = redis.call('HMGET', run, 'ep', 'tok', 'op', 'rp', 'root', 'path', 'ab', 'dl', 'im', 'mi', 'ns', 'nd', 'st', 'ttl', 'par',
  'cs', 'th', 'hw')
if not f[1] then return { 'STALE' } end
if f[3] == ARGV[7] then return { 'ENDED', f[13], f[4] ~= '' and wake_up(T, f[15], f[4]) or nil } end
if f[1] ~= ARGV[5] or f[2] ~= ARGV[6] then return { 'STALE' } end
-- Only where the next boundary would pass: a run that is out of time or rounds, or an object that knows no
-- boundary (a steer may have come before its first claim), has finished all the same.
if ARGV[12] == '1' and f[16] ~= 'o' and tonumber(f[11]) > tonumber(f[12]) and tonumber(f[9]) < tonumber(f[10])
  and not out_of_time(f[8], f[18]) and not marked(T, f[5], f[6], tonumber(f[7])) then
  return { 'STEERS' }
end

for n = 13, #ARGV, 2 do
  local value = redis.call('HGET', run .. ':j', ARGV[n])
  if value then redis.call('RPUSH', T .. 'th:' .. f[17], ARGV[n + 1] .. value .. '}') end
end
redis.call('SET', run .. ':res', ARGV[10], 'EX', f[14])
local wakeup, woken = end_run(T, P, tenant, id, now, ARGV[8], ARGV[9], ARGV[11])
redis.call('HSET', run, 'op', ARGV[7], 'rp', wakeup and wakeup[2] or '')
return { 'ENDED', ARGV[8], wakeup or false, woken }
