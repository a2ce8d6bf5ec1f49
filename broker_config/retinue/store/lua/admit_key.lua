#!lua flags=allow-oom
-- Looks an API key up and counts one request of its holder. Only who has the secret can use up the key's requests.
-- KEYS[1] the key's rate
-- ARGV 1 API keys, in the same slot and only read: a declared key must be one that may be written, 2 key id, 3 digest
--   of the secret that was shown, 4 requests a minute (0 = no limit)
-- Replies {NONE}: there is no such key, it is revoked, it has expired, or the secret is another; {OK, key as JSON};
--   {WAIT, key as JSON, ms until there is room for one more}
--!include _clock
--!include _rate
local f = redis.call('HMGET', ARGV[1], ARGV[2], '!' .. ARGV[2])
if not f[1] or f[2] then return { 'NONE' } end
local key = cjson.decode(f[1])
if key.digest ~= ARGV[3] then return { 'NONE' } end
if type(key.expires_ms) == 'number' and key.expires_ms <= now_ms then return { 'NONE' } end
local wait_ms = count_request(KEYS[1], tonumber(ARGV[4]))
if wait_ms > 0 then return { 'WAIT', f[1], wait_ms } end
return { 'OK', f[1] }
