#!lua flags=no-writes
-- The lanes whose turn it is and that nobody works on, longest waiting first.
-- KEYS[1] when each may be taken
-- ARGV 1 most
-- Replies {tenant/lane...}
--!include _clock
return redis.call('ZRANGE', KEYS[1], '-inf', now, 'BYSCORE', 'LIMIT', 0, ARGV[1])
