#!lua flags=allow-oom
-- Ends an attempt at a request that is to be done once.
-- KEYS[1] the request
-- ARGV 1 the attempt, 2 how: done | undone (it did nothing, and the key is free again if it was the first) | unknown
--   (the next one goes on from where it broke off), 3 the answer as JSON, 4 ms that an answer is kept
-- Replies OK; GONE: another attempt has taken over, or the answer is there already
local f = redis.call('HMGET', KEYS[1], 'try', 'ans', 'n')
if not f[1] or f[2] then return 'GONE' end
-- All attempts come to the same, so whichever is first with the answer keeps it.
if ARGV[2] == 'done' then
  redis.call('HSET', KEYS[1], 'ans', ARGV[3])
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
  return 'OK'
end
if f[1] ~= ARGV[1] then return 'GONE' end
if ARGV[2] == 'undone' and f[3] == '1' then
  redis.call('DEL', KEYS[1])
else
  redis.call('HSET', KEYS[1], 'til', 0)
end
return 'OK'
