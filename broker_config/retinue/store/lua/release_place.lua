#!lua flags=allow-oom
-- Gives a place at a provider back, or its turn in the queue; a repeat changes nothing.
-- KEYS[1] buckets, 2 held places, 3 queue, 4 when each in the queue asked last
-- ARGV 1 place, 2 most at once or '' (no limit), 3 requests and 4 tokens a minute or '' (no limit), 5 tokens that it was
--   charged too much (below 0: too little), 6 ms for which the provider wants no further request, 0 = it did not say
-- Replies {DONE}
--!include _clock
--!include _provider
local held, queue = KEYS[2], KEYS[3]
redis.call('ZREM', queue, ARGV[1])
redis.call('ZREM', KEYS[4], ARGV[1])
if redis.call('ZREM', held, ARGV[1]) == 1 then
  local f = redis.call('HMGET', KEYS[1], 'nb', 'nd', 'at', 'rl', 'tl')
  local requests, tokens = bucket(f[4], ARGV[3], f[3]), bucket(f[5], ARGV[4], f[3])
  local closed_ms, wished_ms = closed_for(f[1], f[2]), tonumber(ARGV[6])
  if wished_ms > closed_ms then
    redis.call('HSET', KEYS[1], 'nb', string.format('%.0f', now_ms + wished_ms), 'nd', ARGV[6])
    closed_ms = wished_ms
  end
  if tokens then tokens.level = math.min(tokens.size, tokens.level + tonumber(ARGV[5])) end
  if requests or tokens or closed_ms > 0 then keep_buckets(KEYS[1], requests, tokens, closed_ms) end
end
tell_first(held, queue, ARGV[2])
return { 'DONE' }
