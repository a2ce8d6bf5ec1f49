#!lua flags=allow-oom
-- Ends the queued and suspended runs of a marked subtree, parents first, and tells the owners of the
-- others; one chunk a call. Of an interrupted run it sweeps nothing but itself.
-- KEYS[1] record of the subtree's root
-- ARGV 1 T, 2 P, 3 tenant, 4 id, 5 cursor ('' = from the start), 6 most runs a call
-- Replies {cursor ('' = done), ended, still running, wake-ups}
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
local T, P, tenant, id = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local f = redis.call('HMGET', KEYS[1], 'root', 'path', 'ab')
if not f[1] then return { '', 0, 0, {} } end
local alone = marked(T, f[1], f[2], tonumber(f[3])) == 'i'
local live, limit = T .. 'tree:' .. f[1] .. ':live', tonumber(ARGV[6])
local from = ARGV[5] == '' and '[' .. f[2] or '(' .. ARGV[5]
local members = alone and { f[2] .. ' ' .. id }
  or redis.call('ZRANGEBYLEX', live, from, '(' .. f[2] .. '\255', 'LIMIT', 0, limit)
local ended, running, wakeups = 0, 0, {}
for _, entry in ipairs(members) do
  local path, run_id = string.match(entry, '^(%S+) (%S+)$')
  local r = redis.call('HMGET', T .. 'run:' .. run_id, 'own', 'ab', 'fi')
  local mark = r[1] and not r[3] and marked(T, f[1], path, tonumber(r[2]))
  if mark == 'c' or (mark and alone) then
    if r[1] == '' then
      local _, wakeup, woken = stop_run(T, P, tenant, run_id, now, mark)
      if wakeup then wakeups[#wakeups + 1] = wakeup end
      for _, freed in ipairs(woken) do wakeups[#wakeups + 1] = freed end
      ended = ended + 1
    else
      redis.call('PUBLISH', 'retinue:process:' .. r[1], run_id .. (alone and ' interrupt' or ' cancel'))
      running = running + 1
    end
  end
end
return { #members == limit and members[#members] or '', ended, running, wakeups }
