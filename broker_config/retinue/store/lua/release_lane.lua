#!lua flags=allow-oom
-- Lets go of a lane: its turn comes again with the next of its deliveries.
-- KEYS[1] when each lane may be taken
-- ARGV 1 W, 2 tenant, 3 lane, 4 the token that it was taken with
-- Replies {OK}; {STALE}
--!include _clock
--!include _lane
if redis.call('HGET', ARGV[1] .. 'held', ARGV[2] .. '/' .. ARGV[3]) ~= ARGV[4] then return { 'STALE' } end
await_turn(ARGV[1], ARGV[2], ARGV[3])
return { 'OK' }
