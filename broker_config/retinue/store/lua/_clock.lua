-- The server's clock, read once a script: a number to compare and a text to store
-- (tostring would write 1.7e12 and lose the milliseconds).
local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local now = string.format('%.0f', now_ms)
