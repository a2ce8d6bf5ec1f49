#!lua flags=allow-oom
-- Counts one request of a caller who proved by itself who it is: by a token or a run's handle.
-- KEYS[1] the caller's rate
-- ARGV 1 requests a minute (0 = no limit)
-- Replies ms until there is room for one more; 0 = it was counted
--!include _clock
--!include _rate
return count_request(KEYS[1], tonumber(ARGV[1]))
