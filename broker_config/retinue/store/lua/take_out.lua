#!lua flags=allow-oom
-- Hands a process the letter of an ended run, of whose end it is to tell someone; for a while nobody else gets it.
-- KEYS[1] the letter
-- ARGV 1 P, 2 tenant, 3 id, 4 whom to tell (d|s|w), 5 token, a repeat under which gets the same answer, 6 ms that it
--   is held, 7 agents whose runs this process may tell of, each "\n<name>\t<l|o>", and a closing "\n"; '' = any
-- Replies {TAKEN, record, launch}; {HELD} (by another, or told already); {NOT_CAPABLE}
--!include _clock
local P, member, holder = ARGV[1], ARGV[2] .. '/' .. ARGV[3], 'to:' .. ARGV[4]
local from = tonumber(redis.call('ZSCORE', P .. 'out:' .. ARGV[4], member) or 'inf')
local f = redis.call('HMGET', KEYS[1], holder, 'ag', 'doc')
if not f[1] then
  -- It has expired untold, or was told: nothing is left to tell.
  redis.call('ZREM', P .. 'out:' .. ARGV[4], member)
  return { 'HELD' }
end
if from > now_ms and f[1] ~= ARGV[5] then return { 'HELD' } end
if ARGV[7] ~= '' and f[2] ~= '' and not f[3] and not string.find(ARGV[7], '\n' .. f[2] .. '\t', 1, true) then
  return { 'NOT_CAPABLE' }
end
redis.call('HSET', KEYS[1], holder, ARGV[5])
redis.call('ZADD', P .. 'out:' .. ARGV[4], string.format('%.0f', now_ms + tonumber(ARGV[6])), member)
return { 'TAKEN', redis.call('HGETALL', KEYS[1]), redis.call('GET', KEYS[1] .. ':req') }
