#!lua flags=allow-oom
-- Writes one tool call's result into the journal. The slot is its identity: a repeat changes nothing.
-- KEYS[1] record
-- ARGV 1 T, 2 P, 3 tenant, 4 id, 5 epoch, 6 token, 7 iteration, 8 index, 9 result as a JSON string, 10 tool as a
--   JSON string, 11 ok (true|false), 12 duration ms
-- Replies {OK}; {REPEAT}; {STALE}; {BEHIND} (the store has lost what the attempt wrote before)
--!include _clock
--!include _usage
--!include _count
local T, id, run = ARGV[1], ARGV[4], KEYS[1]
local f = redis.call('HMGET', run, 'ep', 'tok', 'it', 'root', 'im')
if not f[1] or f[1] ~= ARGV[5] or f[2] ~= ARGV[6] then return { 'STALE' } end
-- A late repeat, after the boundary moved the entry, must not write an orphan.
if tonumber(f[3]) > tonumber(ARGV[7]) then return { 'REPEAT' } end
-- A result without its call would be taken for that of another one.
if f[5] ~= ARGV[7] then return { 'BEHIND' } end
if redis.call('HSETNX', run .. ':j', ARGV[7] .. ':' .. ARGV[8], ARGV[9]) == 0 then return { 'REPEAT' } end

count_call(T, id, ARGV[10], ARGV[12])
redis.call('HSET', run, 'up', now)
redis.call('RPUSH', T .. 'tree:' .. f[4] .. ':ev', '{"e":"tool.finished","r":"' .. id .. '","t":' .. now
  .. ',"iteration":' .. ARGV[7] .. ',"index":' .. ARGV[8] .. ',"tool":' .. ARGV[10] .. ',"ok":' .. ARGV[11]
  .. ',"duration_ms":' .. ARGV[12] .. '}')
return { 'OK' }
