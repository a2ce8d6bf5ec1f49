#!lua flags=allow-oom
-- Gives the run to another agent: answers the calls that the handoff decides, makes the recipient the
-- owner of the thread, forgets the spec, and queues the run for a worker of the recipient.
-- KEYS[1] record
-- ARGV 1 T, 2 P, 3 tenant, 4 id, 5 epoch, 6 token, 7 operation, 8 iteration, 9 recipient, 10 its queue, 11 most
--   handoffs of the run, 12 present agent as a JSON string, 13 recipient as a JSON string, 14.. fours of index,
--   result as a JSON string, tool as a JSON string, ok (true|false)
-- Replies {HANDED_OFF, wake-up}; {STALE}; {BEHIND} (the store has lost what the attempt wrote before); {CANCEL};
--   {INTERRUPT}; {DEADLINE}; {MAX_HANDOFFS, limit}
--!include _clock
--!include _deadline
--!include _marks
--!include _usage
--!include _count
--!include _queue
local T, P, tenant, id, run = ARGV[1], ARGV[2], ARGV[3], ARGV[4], KEYS[1]
local f = redis.call('HMGET', run, 'ep', 'tok', 'op', 'rp', 'root', 'path', 'ab', 'dl', 'own', 'th', 'ho', 'it', 'hw', 'im')
if not f[1] then return { 'STALE' } end
-- The first call dropped the token, so its repeat is known before the fence.
if f[3] == ARGV[7] and f[4] ~= '' then return { 'HANDED_OFF', wake_up(T, id, f[4]) } end
if f[1] ~= ARGV[5] or f[2] ~= ARGV[6] or f[12] ~= ARGV[8] then return { 'STALE' } end
if f[14] ~= ARGV[8] then return { 'BEHIND' } end
local mark = marked(T, f[5], f[6], tonumber(f[7]))
if mark then return { mark == 'c' and 'CANCEL' or 'INTERRUPT' } end
if out_of_time(f[8], f[13]) then return { 'DEADLINE' } end
if tonumber(f[11] or '0') >= tonumber(ARGV[11]) then return { 'MAX_HANDOFFS', ARGV[11] } end

local events, at = T .. 'tree:' .. f[5] .. ':ev', '","t":' .. now .. ',"iteration":' .. ARGV[8]
for n = 14, #ARGV, 4 do
  if redis.call('HSETNX', run .. ':j', ARGV[8] .. ':' .. ARGV[n], ARGV[n + 1]) == 1 then
    count_call(T, id, ARGV[n + 2], 0)
    redis.call('RPUSH', events, '{"e":"tool.finished","r":"' .. id .. at .. ',"index":' .. ARGV[n] .. ',"tool":'
      .. ARGV[n + 2] .. ',"ok":' .. ARGV[n + 3] .. ',"duration_ms":0}')
  end
end
redis.call('SREM', P .. 'own:' .. f[9], tenant .. '/' .. id)
redis.call('SET', T .. 'th:' .. f[10] .. ':ow', ARGV[9])
redis.call('HSET', run, 'ag', ARGV[9], 'q', ARGV[10])
redis.call('HINCRBY', run, 'ho', 1)
-- The recipient's is resolved at the next claim.
redis.call('HDEL', run, 'dg', 'md', 'pv')
redis.call('RPUSH', events, '{"e":"run.handed_off","r":"' .. id .. '","t":' .. now .. ',"from":' .. ARGV[12]
  .. ',"to":' .. ARGV[13] .. '}')
local wakeup = queue_run(T, P, tenant, id, now)
redis.call('HSET', run, 'op', ARGV[7], 'rp', wakeup[2])
return { 'HANDED_OFF', wakeup }
