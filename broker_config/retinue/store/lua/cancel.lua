#!lua flags=allow-oom
-- Marks a run and so its whole subtree as cancelled; the sweep ends what no worker holds.
-- KEYS[1] record
-- ARGV 1 T, 2 P, 3 tenant, 4 id, 5 reason as a JSON string
-- Replies {ACCEPTED}; {UNKNOWN}; {TERMINAL, state}
--!include _clock
local T, P, tenant, id, run = ARGV[1], ARGV[2], ARGV[3], ARGV[4], KEYS[1]
local f = redis.call('HMGET', run, 'st', 'root', 'path', 'fi', 'own')
if not f[1] then return { 'UNKNOWN' } end
if f[4] then return { 'TERMINAL', f[1] } end
local marks = T .. 'tree:' .. f[2] .. ':m'
local mark = redis.call('HGET', marks, f[3])
if mark and string.sub(mark, 1, 1) == 'c' then return { 'ACCEPTED' } end

redis.call('HSET', marks, f[3], 'c')
redis.call('ZADD', P .. 'due', 0, tenant .. '/' .. id)
redis.call('RPUSH', T .. 'tree:' .. f[2] .. ':ev', '{"e":"cancel.requested","r":"' .. id .. '","t":' .. now
  .. ',"kind":"cancel","reason":' .. ARGV[5] .. '}')
return { 'ACCEPTED' }
