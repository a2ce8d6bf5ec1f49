-- The limit of a caller's requests: a bucket of as many as a minute allows, which fills evenly. The key holds when it
-- is full again, in us; what is not there is full.
-- Replies ms until there is room for one more request, which is not counted then; 0 = it was counted.
local function count_request(key, per_minute)
  if per_minute == 0 then return 0 end
  local now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])
  local each_us = 60000000 / per_minute
  local full_us = math.max(tonumber(redis.call('GET', key) or 0), now_us) + each_us
  -- A clock that was set back must not lock anybody out.
  if full_us > now_us + 120000000 then full_us = now_us + each_us end
  local late_us = full_us - now_us - 60000000
  if late_us > 0.5 then return math.ceil(late_us / 1000) end
  redis.call('SET', key, string.format('%.0f', full_us), 'PX', math.ceil((full_us - now_us) / 1000))
  return 0
end
