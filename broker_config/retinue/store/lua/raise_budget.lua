#!lua
-- Raises caps of a run's budget, and wakes the runs at and below it that wait for that. A cap is named by what it is
-- to be, so a repeat changes nothing.
-- KEYS[1] record
-- ARGV 1 T, 2 P, 3 tenant, 4 id, 5.. pairs of the cap's field in the account (ci co ct cu cc cw) and its new value
-- Replies {RAISED, account, wake-ups, now}; {UNKNOWN}; {TERMINAL, state}; {NO_BUDGET}; {NO_CAP, field} (it has no such cap, so
--   there is nothing to raise); {LOWER, field, present value}
--!include _clock
--!include _usage
--!include _queue
--!include _account
--!include _budget
local T, P, tenant, run = ARGV[1], ARGV[2], ARGV[3], KEYS[1]
local f = redis.call('HMGET', run, 'root', 'path', 'fi', 'st')
if not f[1] then return { 'UNKNOWN' } end
local tree, path = T .. 'tree:' .. f[1], f[2]
-- Runs that it abandoned still live on its budget.
if f[3] and redis.call('HGET', tree, 'live') == '0' then return { 'TERMINAL', f[4] } end
if redis.call('HEXISTS', tree .. ':b', path .. 'm') == 0 then return { 'NO_BUDGET' } end
for n = 5, #ARGV, 2 do
  local cap = redis.call('HGET', tree .. ':b', path .. ARGV[n])
  if not cap then return { 'NO_CAP', ARGV[n] } end
  if tonumber(ARGV[n + 1]) < tonumber(cap) then return { 'LOWER', ARGV[n], cap } end
end

local told, changes = redis.call('HGET', tree .. ':b', path .. 'w') or '', false
for n = 5, #ARGV, 2 do
  if redis.call('HGET', tree .. ':b', path .. ARGV[n]) ~= ARGV[n + 1] then
    changes = true
    redis.call('HSET', tree .. ':b', path .. ARGV[n], ARGV[n + 1])
    -- Of the new cap four fifths may be told again.
    told = string.gsub(told, ARGV[n], '')
  end
end
if not changes then return { 'RAISED', read_account(T, f[1], path), {}, now } end
redis.call('HSET', tree .. ':b', path .. 'w', told)
-- They have waited longest: before those that only wait for others' reservations.
local budgets = budgets_of(T, P, tenant, f[1])
for _, entry in ipairs(redis.call('ZRANGEBYLEX', tree .. ':bs', '[' .. path, '(' .. path .. '\255')) do
  redis.call('ZREM', tree .. ':bs', entry)
  redis.call('ZADD', tree .. ':bw', 0, entry)
  budgets.look_again(string.match(entry, '%S+$'))
end
local woken = budgets.wake()
return { 'RAISED', read_account(T, f[1], path), woken, now }
