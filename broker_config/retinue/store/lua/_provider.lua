-- What a provider's limits leave: its buckets as they stand now, and whose turn it is. Needs _clock.
-- A bucket holds a tenth of its limit and fills so that no minute ever sees more than the limit: what it
-- holds and what flows in within a minute are that and one, which is never whole. '' = there is no limit.
local function bucket(level, limit, since)
  if limit == '' then return nil end
  local size = math.max(1, math.floor(limit / 10))
  local rate = (limit + 1 - size) / 60000
  local held = level and math.min(size, tonumber(level) + math.max(0, now_ms - tonumber(since)) * rate) or size
  return { level = held, size = size, rate = rate }
end

local function ms_until(filling, level)
  return filling and math.max(0, math.ceil((level - filling.level) / filling.rate)) or 0
end

-- Both are as good as absent once they are full.
local function keep_buckets(key, requests, tokens, closed_ms)
  local life = closed_ms
  for field, filling in pairs({ rl = requests, tl = tokens }) do
    redis.call('HSET', key, field, string.format('%.9f', filling.level))
    life = math.max(life, ms_until(filling, filling.size))
  end
  redis.call('HSET', key, 'at', now)
  redis.call('PEXPIRE', key, string.format('%.0f', life + 1000))
end

-- How long nobody may send, by what the provider asked for; longer than that only if the clock was put back.
local function closed_for(opens_at, asked_ms)
  local left = (tonumber(opens_at) or 0) - now_ms
  return left > 0 and left <= tonumber(asked_ms) and left or 0
end

-- Scores later than any can be are of a clock that was put back since; their owners set them anew.
local function drop_outside(key, oldest, newest)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.0f', oldest))
  redis.call('ZREMRANGEBYSCORE', key, string.format('(%.0f', newest), '+inf')
end

local function tell_first(held, queue, most)
  local first = redis.call('ZRANGE', queue, 0, 0)[1]
  if first and (most == '' or redis.call('ZCARD', held) < tonumber(most)) then
    redis.call('PUBLISH', 'retinue:process:' .. string.match(first, '^[^:]*'), first .. ' place')
  end
end
