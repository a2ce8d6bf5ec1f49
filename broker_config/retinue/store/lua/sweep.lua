#!lua flags=allow-oom
-- Ends the queued and suspended runs of a marked subtree, parents first, and tells the owners of the
-- others; one chunk a call.
-- KEYS[1] record of the subtree's root
-- ARGV 1 T, 2 P, 3 tenant, 4 id, 5 cursor ('' = from the start), 6 most runs a call
-- Replies {cursor ('' = done), ended, still running, wake-ups}
--!include _clock
--!include _marks
--!include _count
--!include _queue
--!include _asked
--!include _requests
--!include _end
local T, P, tenant, id = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local f = redis.call('HMGET', KEYS[1], 'root', 'path')
if not f[1] then return { '', 0, 0, {} } end
local live, limit = T .. 'tree:' .. f[1] .. ':live', tonumber(ARGV[6])
local from = ARGV[5] == '' and '[' .. f[2] or '(' .. ARGV[5]
local members = redis.call('ZRANGEBYLEX', live, from, '(' .. f[2] .. '\255', 'LIMIT', 0, limit)
local ended, running, wakeups = 0, 0, {}
for _, entry in ipairs(members) do
  local path, run_id = string.match(entry, '^(%S+) (%S+)$')
  local r = redis.call('HMGET', T .. 'run:' .. run_id, 'own', 'ab', 'fi')
  if r[1] and not r[3] and marked(T, f[1], path, tonumber(r[2])) == 'c' then
    if r[1] == '' then
      local wakeup = end_run(T, P, tenant, run_id, now, 'CANCELLED', '',
        '"[CANCELLED] This agent was cancelled before it finished."')
      if wakeup then wakeups[#wakeups + 1] = wakeup end
      ended = ended + 1
    else
      redis.call('PUBLISH', 'retinue:process:' .. r[1], run_id .. ' cancel')
      running = running + 1
    end
  end
end
return { #members == limit and members[#members] or '', ended, running, wakeups }
