#!lua
-- Begins a request that is to be done once, however often it is sent.
-- KEYS[1] the request: fp fingerprint, seed of its runs, at begun ms, try its attempt, til ms until when that is
--   waited for, n attempts, ans answer
-- ARGV 1 fingerprint, 2 this attempt, 3 seed, if it is the first, 4 ms that an attempt is waited for, 5 ms that the
--   request is known
-- Replies {NEW, seed, begun ms}; {AGAIN, seed, begun ms}: an earlier attempt broke off, having done what is not known;
--   {DONE, answer as JSON}; {BUSY}: another attempt is at it; {OTHER}: the key was used for another request
--!include _clock
local f = redis.call('HMGET', KEYS[1], 'fp', 'seed', 'at', 'ans', 'try', 'til', 'n')
local til = string.format('%.0f', now_ms + tonumber(ARGV[4]))
if not f[1] then
  redis.call('HSET', KEYS[1], 'fp', ARGV[1], 'seed', ARGV[3], 'at', now, 'try', ARGV[2], 'til', til, 'n', 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[5])
  return { 'NEW', ARGV[3], now }
end
if f[1] ~= ARGV[1] then return { 'OTHER' } end
if f[4] then return { 'DONE', f[4] } end
-- A repeat of this very call, whose reply was lost, has changed nothing since.
if f[5] == ARGV[2] then return { f[7] == '1' and 'NEW' or 'AGAIN', f[2], f[3] } end
if tonumber(f[6]) > now_ms then return { 'BUSY' } end
redis.call('HSET', KEYS[1], 'try', ARGV[2], 'til', til)
redis.call('HINCRBY', KEYS[1], 'n', 1)
return { 'AGAIN', f[2], f[3] }
