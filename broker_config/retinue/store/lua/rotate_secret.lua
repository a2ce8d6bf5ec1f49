#!lua
-- Gives an endpoint another signing secret; the one before signs as well for a while.
-- KEYS[1] the endpoint
-- ARGV 1 new secret, a repeat of which changes nothing, 2 ms that the former one signs too, 3 '1' = an endpoint that
--   is not there is made (that of runs' own webhooks)
-- Replies {OK, until when the former one signs, ms; '' = there was none}; {UNKNOWN}
--!include _clock
local f = redis.call('HMGET', KEYS[1], 'sec', 'till')
if not f[1] and ARGV[3] ~= '1' then return { 'UNKNOWN' } end
if f[1] == ARGV[1] then return { 'OK', f[2] or '' } end
redis.call('HSET', KEYS[1], 'sec', ARGV[1])
if not f[1] then return { 'OK', '' } end
local till = string.format('%.0f', now_ms + tonumber(ARGV[2]))
redis.call('HSET', KEYS[1], 'old', f[1], 'till', till)
return { 'OK', till }
