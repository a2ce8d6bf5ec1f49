#!lua
-- Queues a message for a run's next boundary. The steer's id is its identity.
-- KEYS[1] record
-- ARGV 1 T, 2 P, 3 tenant, 4 id, 5 steer id, 6 text as a JSON string, 7 most steers a run
-- Replies {QUEUED}; {KNOWN, disposition}; {UNKNOWN}; {TERMINAL}; {CANCELLED}; {UNSUPPORTED}; {CAPACITY, limit}
--!include _clock
--!include _marks
local T, id, run, steer = ARGV[1], ARGV[4], KEYS[1], ARGV[5]
local f = redis.call('HMGET', run, 'st', 'root', 'path', 'ab', 'ns', 'fi', 'cs')
if not f[1] then return { 'UNKNOWN' } end
local known = redis.call('HGET', run .. ':s', '#' .. steer)
if known then return { 'KNOWN', known } end
if f[6] then return { 'TERMINAL' } end
if f[7] == 'o' then return { 'UNSUPPORTED' } end
if marked(T, f[2], f[3], tonumber(f[4])) then return { 'CANCELLED' } end
if tonumber(f[5]) >= tonumber(ARGV[7]) then return { 'CAPACITY', ARGV[7] } end

local n = redis.call('HINCRBY', run, 'ns', 1)
redis.call('HSET', run .. ':s', 't' .. n, ARGV[6], 'i' .. n, steer, '#' .. steer, 'q')
redis.call('RPUSH', T .. 'tree:' .. f[2] .. ':ev',
  '{"e":"steer.queued","r":"' .. id .. '","t":' .. now .. ',"steer":"' .. steer .. '"}')
return { 'QUEUED' }
