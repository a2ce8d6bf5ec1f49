#!lua flags=allow-oom
-- Takes a queue out of those that a partition's runs wait in, unless one does.
-- KEYS[1] the partition's queues
-- ARGV 1 P, 2 queue
-- Replies 1 = forgotten; 0 = a run waits there, or it was not known
if redis.call('EXISTS', ARGV[1] .. 'q:' .. ARGV[2]) == 1 then return 0 end
return redis.call('SREM', KEYS[1], ARGV[2])
