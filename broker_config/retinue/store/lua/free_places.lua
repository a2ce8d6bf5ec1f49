#!lua flags=allow-oom
-- Takes a process that is gone out of a provider's places and queue.
-- KEYS[1] held places, 2 queue, 3 when each in the queue asked last
-- ARGV 1 process, 2 most at once or '' (no limit)
-- Replies {FREED, how many places it held}
--!include _clock
--!include _provider
local mark, freed = ARGV[1] .. ':', 0
for n, key in ipairs(KEYS) do
  for _, place in ipairs(redis.call('ZRANGE', key, 0, -1)) do
    if string.sub(place, 1, #mark) == mark then
      redis.call('ZREM', key, place)
      if n == 1 then freed = freed + 1 end
    end
  end
end
tell_first(KEYS[1], KEYS[2], ARGV[2])
return { 'FREED', tostring(freed) }
