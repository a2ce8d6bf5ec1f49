#!lua flags=allow-oom
-- Makes a process the elected reaper, or keeps it so.
-- KEYS[1] retinue:reaper
-- ARGV 1 process, 2 ms
-- Replies 1 = it is; 0 = another one is
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  -- Longer than it can have: the clock was put back, and a dead holder would stand here until it has caught up.
  redis.call('PEXPIRE', KEYS[1], ARGV[2], 'LT')
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
