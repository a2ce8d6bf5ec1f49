#!lua flags=allow-oom
-- Hands a process the deliveries of a lane that are due; for a while nobody else works on the lane.
-- KEYS[1] when each lane may be taken
-- ARGV 1 W, 2 tenant, 3 lane, 4 endpoint, 5 token, a repeat under which gets the same answer, 6 ms that it is held,
--   7 most deliveries
-- Replies {TAKEN, endpoint, {id, delivery}...}; {HELD}; {EMPTY}
--!include _clock
--!include _lane
local W, tenant, lane, token = ARGV[1], ARGV[2], ARGV[3], ARGV[5]
local member, key = tenant .. '/' .. lane, W .. 'lane:' .. tenant .. ':' .. lane
local from = redis.call('ZSCORE', KEYS[1], member)
if not from then return { 'EMPTY' } end
if tonumber(from) > now_ms and redis.call('HGET', W .. 'held', member) ~= token then return { 'HELD' } end
local endpoint = redis.call('HGETALL', W .. 'at:' .. tenant .. ':' .. ARGV[4])
if #endpoint == 0 then redis.call('UNLINK', key) end
local reply = { 'TAKEN', endpoint }
for _, id in ipairs(redis.call('ZRANGE', key, '-inf', now, 'BYSCORE', 'LIMIT', 0, ARGV[7])) do
  local message = W .. 'msg:' .. tenant .. ':' .. id
  if redis.call('EXISTS', message) == 1 then
    redis.call('HSET', message, 'tok', token)
    reply[#reply + 1] = { id, redis.call('HGETALL', message) }
  else
    redis.call('ZREM', key, id)
  end
end
if #reply == 2 then
  await_turn(W, tenant, lane)
  return { 'EMPTY' }
end
redis.call('ZADD', KEYS[1], string.format('%.0f', now_ms + tonumber(ARGV[6])), member)
redis.call('HSET', W .. 'held', member, token)
return reply
