#!lua flags=allow-oom
-- Leaves the worker while calls are open. Answers READY instead where all have been answered meanwhile.
-- KEYS[1] record
-- ARGV 1 T, 2 P, 3 tenant, 4 id, 5 epoch, 6 token, 7 operation, 8 phase (waiting_...), 9.. pairs of slot and
--   kind:detail
-- Replies {SUSPENDED, open}; {READY}; {STALE}; {CANCEL}; {INTERRUPT}; {DEADLINE}
--!include _clock
--!include _marks
local T, P, id, run = ARGV[1], ARGV[2], ARGV[4], KEYS[1]
local f = redis.call('HMGET', run, 'ep', 'tok', 'op', 'rp', 'root', 'path', 'ab', 'dl', 'own')
if not f[1] then return { 'STALE' } end
-- The first call dropped the token, so its repeat is known before the fence.
if f[3] == ARGV[7] then return { 'SUSPENDED', f[4] } end
if f[1] ~= ARGV[5] or f[2] ~= ARGV[6] then return { 'STALE' } end
local mark = marked(T, f[5], f[6], tonumber(f[7]))
if mark then return { mark == 'c' and 'CANCEL' or 'INTERRUPT' } end
if tonumber(f[8]) > 0 and now_ms >= tonumber(f[8]) then return { 'DEADLINE' } end
local open = {}
for n = 9, #ARGV, 2 do
  if redis.call('HEXISTS', run .. ':j', ARGV[n]) == 0 then
    open[#open + 1] = ARGV[n]
    open[#open + 1] = ARGV[n + 1]
  end
end
if #open == 0 then return { 'READY' } end

local count = tostring(#open / 2)
redis.call('HSET', run .. ':e', unpack(open))
redis.call('HSET', run, 'st', 'RUNNING', 'ph', ARGV[8], 'tok', '', 'own', '', 'op', ARGV[7], 'rp', count, 'up', now)
redis.call('SREM', P .. 'own:' .. f[9], ARGV[3] .. '/' .. id)
redis.call('RPUSH', T .. 'tree:' .. f[5] .. ':ev', '{"e":"run.suspended","r":"' .. id .. '","t":' .. now
  .. ',"phase":"' .. ARGV[8] .. '","open":' .. count .. '}')
return { 'SUSPENDED', count }
