#!lua flags=allow-oom
-- Whoever was to be told of a run's end has been told: the letter goes once nobody else is to be.
-- KEYS[1] the letter
-- ARGV 1 P, 2 tenant, 3 id, 4 who was told (d|s|w)
-- Replies {OK}
local P = ARGV[1]
redis.call('ZREM', P .. 'out:' .. ARGV[4], ARGV[2] .. '/' .. ARGV[3])
redis.call('HDEL', KEYS[1], 'to:' .. ARGV[4])
for _, kind in ipairs({ 'd', 's', 'w' }) do
  if redis.call('HEXISTS', KEYS[1], 'to:' .. kind) == 1 then return { 'OK' } end
end
redis.call('DEL', KEYS[1], KEYS[1] .. ':req')
return { 'OK' }
