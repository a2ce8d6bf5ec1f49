-- A run's deadline: `dl` in ms of the server's clock, 0 = none. It stands still while a human is awaited by the
-- run or by one below it: `hw` counts those that ask one, `hs` is since when, ms; both are absent while none
-- does. Counted are runs up to the next one above that has ended: nobody waits for what is below that.
-- Needs _clock.

local function out_of_time(deadline, awaited)
  return not awaited and tonumber(deadline) > 0 and now_ms >= tonumber(deadline)
end

-- Where it would be if nobody were awaited from now on; a clock that was put back moves it no nearer.
local function moved_deadline(deadline, since)
  if not since or deadline == '0' then return tonumber(deadline) end
  return tonumber(deadline) + math.max(0, now_ms - tonumber(since))
end

-- A run begins (1) or ends (-1) to ask a human, or so many (-n) of a subtree whose top ends: counts it on `id`
-- and on all above it. Where nobody is awaited any more, time runs on, and the timer is set anew.
local function count_awaited(T, P, tenant, id, by)
  while id and id ~= '' do
    local run = T .. 'run:' .. id
    local f = redis.call('HMGET', run, 'par', 'fi', 'dl', 'hs')
    if not f[1] or f[2] then return end
    if redis.call('HINCRBY', run, 'hw', by) <= 0 then
      redis.call('HDEL', run, 'hw', 'hs')
      if f[3] ~= '0' then
        local deadline = string.format('%.0f', moved_deadline(f[3], f[4]))
        redis.call('HSET', run, 'dl', deadline)
        -- What is due before stays so: it finds that the time is not over yet.
        redis.call('ZADD', P .. 'due', 'LT', deadline, tenant .. '/' .. id)
      end
    elseif not f[4] then
      redis.call('HSET', run, 'hs', now)
    end
    id = f[1]
  end
end
