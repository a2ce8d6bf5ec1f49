#!lua flags=allow-oom
-- Holds a place at a provider for longer: its request is still under way. One that had run out is held again.
-- KEYS[1] held places
-- ARGV 1 place, 2 ms that it is held from now on
-- Replies {DONE}
--!include _clock
redis.call('ZADD', KEYS[1], string.format('%.0f', now_ms + tonumber(ARGV[2])), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return { 'DONE' }
