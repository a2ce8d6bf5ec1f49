#!lua flags=allow-oom
-- Marks a run, and nothing below it, as interrupted: its model is asked nothing more, and its children follow
-- nobody any longer. One that no worker holds ends at once; else its owner is told.
-- KEYS[1] record
-- ARGV 1 T, 2 P, 3 tenant, 4 id, 5 reason as a JSON string, 6 operation
-- Replies {ACCEPTED, state as shown}; {ENDED, state, wake-ups}; {UNKNOWN}; {TERMINAL, state}; {UNSUPPORTED, state} (an
--   object at work knows no boundary)
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
local f = redis.call('HMGET', run, 'st', 'root', 'path', 'ab', 'fi', 'own', 'cs', 'op', 'rp', 'par')
if not f[1] then return { 'UNKNOWN' } end
if f[5] and f[8] == ARGV[6] then return { 'ENDED', f[1], { f[9] ~= '' and wake_up(T, f[10], f[9]) or nil } } end
if f[5] then return { 'TERMINAL', f[1] } end
local mark = marked(T, f[2], f[3], tonumber(f[4]))
-- A cancel is more: it stands.
if mark then return { 'ACCEPTED', mark == 'c' and 'CANCEL_REQUESTED' or f[1] } end
if f[6] ~= '' and f[7] == 'o' then return { 'UNSUPPORTED', f[1] } end

redis.call('HSET', T .. 'tree:' .. f[2] .. ':m', f[3], 'i')
redis.call('RPUSH', T .. 'tree:' .. f[2] .. ':ev', '{"e":"cancel.requested","r":"' .. id .. '","t":' .. now
  .. ',"kind":"interrupt","reason":' .. ARGV[5] .. '}')
if f[6] ~= '' then
  -- Should its worker be lost, or not be told, the timer sees to it.
  redis.call('ZADD', P .. 'due', 0, tenant .. '/' .. id)
  redis.call('PUBLISH', 'retinue:process:' .. f[6], id .. ' interrupt')
  return { 'ACCEPTED', f[1] }
end
local state, wakeup, wakeups = stop_run(T, P, tenant, id, now, 'i')
redis.call('HSET', run, 'op', ARGV[6], 'rp', wakeup and wakeup[2] or '')
wakeups[#wakeups + 1] = wakeup
return { 'ENDED', state, wakeups }
