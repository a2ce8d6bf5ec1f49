#!lua
-- Asks a limited provider for a place, which is the right to send one request. Whoever asked first is first.
-- KEYS[1] buckets, 2 held places, 3 queue, 4 when each in the queue asked last
-- ARGV 1 place, 2 most at once or '' (no limit), 3 requests and 4 tokens a minute or '' (no limit), 5 tokens that the
--   request may take, 6 ms that a place is held unless renewed, 7 ms after which one in the queue is to ask again
-- Replies {GO}; {WAIT, ms until it is to ask again, unless it is told before}
--!include _clock
--!include _provider
local place, most, hold_ms, again_ms = ARGV[1], ARGV[2], tonumber(ARGV[6]), tonumber(ARGV[7])
local held, queue, asked = KEYS[2], KEYS[3], KEYS[4]
drop_outside(held, now_ms, now_ms + hold_ms)
if redis.call('ZSCORE', held, place) then return { 'GO' } end
-- One that is gone must not stand in everybody's way.
drop_outside(asked, now_ms - 3 * again_ms, now_ms + again_ms)
local first = redis.call('ZRANGE', queue, 0, 0)[1]
while first and first ~= place and not redis.call('ZSCORE', asked, first) do
  redis.call('ZREM', queue, first)
  first = redis.call('ZRANGE', queue, 0, 0)[1]
end

local f = redis.call('HMGET', KEYS[1], 'nb', 'nd', 'at', 'rl', 'tl')
local requests, tokens = bucket(f[4], ARGV[3], f[3]), bucket(f[5], ARGV[4], f[3])
local closed_ms, cost, wait_ms = closed_for(f[1], f[2]), tonumber(ARGV[5]), again_ms
if not first or first == place then
  -- A request that takes more than the bucket holds waits until it is full, and leaves a debt.
  local need = tokens and math.min(cost, tokens.size) or 0
  wait_ms = math.max(closed_ms, ms_until(requests, 1), ms_until(tokens, need))
  if most ~= '' and redis.call('ZCARD', held) >= tonumber(most) then wait_ms = math.max(wait_ms, again_ms) end
end
if wait_ms > 0 then
  redis.call('ZADD', queue, 'NX', now, place)
  redis.call('ZADD', asked, now, place)
  redis.call('PEXPIRE', queue, 3 * again_ms)
  redis.call('PEXPIRE', asked, 3 * again_ms)
  return { 'WAIT', string.format('%.0f', math.min(wait_ms, again_ms)) }
end

redis.call('ZREM', queue, place)
redis.call('ZREM', asked, place)
redis.call('ZADD', held, string.format('%.0f', now_ms + hold_ms), place)
redis.call('PEXPIRE', held, hold_ms)
if requests then requests.level = requests.level - 1 end
if tokens then tokens.level = tokens.level - cost end
if requests or tokens then keep_buckets(KEYS[1], requests, tokens, closed_ms) end
tell_first(held, queue, most)
return { 'GO' }
