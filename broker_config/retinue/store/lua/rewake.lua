#!lua flags=allow-oom
-- A new wake-up number for a run whose wake-up seems lost; each one waits twice as long as the last.
-- KEYS[1] record
-- ARGV 1 T, 2 P, 3 tenant, 4 id, 5 first back-off ms, 6 longest back-off ms
-- Replies {WAKE, wake-up, state}; {NOT_QUEUED}; {LATER}
--!include _clock
--!include _usage
--!include _queue
local T, P, tenant, id, run = ARGV[1], ARGV[2], ARGV[3], ARGV[4], KEYS[1]
local f = redis.call('HMGET', run, 'ph', 'rs', 'ra', 'st')
if f[1] ~= 'queued' and f[1] ~= 'no_worker' then return { 'NOT_QUEUED' } end
local wait_ms = tonumber(f[3]) - now_ms
-- Longer than any back-off: the clock was put back.
if wait_ms > 0 and wait_ms <= tonumber(ARGV[6]) then return { 'LATER' } end

local backoff = math.min(tonumber(ARGV[5]) * 2 ^ tonumber(f[2]), tonumber(ARGV[6]))
local wakeup = redis.call('HINCRBY', run, 'wk', 1)
redis.call('HINCRBY', run, 'rs', 1)
redis.call('HSET', run, 'ph', 'queued', 'ra', string.format('%.0f', now_ms + backoff))
return { 'WAKE', wake_up(T, id, wakeup), f[4] }
