#!lua flags=allow-oom
-- Revokes an API key: from now on it opens nothing. It stays in the list.
-- KEYS[1] API keys
-- ARGV 1 key id
-- Replies when it was revoked, ms; 0 = there is no such key
--!include _clock
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return '0' end
redis.call('HSETNX', KEYS[1], '!' .. ARGV[1], now)
return redis.call('HGET', KEYS[1], '!' .. ARGV[1])
