#!lua flags=allow-oom
-- Makes a process the elected reaper, or keeps it so.
-- KEYS[1] retinue:reaper
-- ARGV 1 process, 2 ms
-- Replies 1 = it is; 0 = another one is
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
