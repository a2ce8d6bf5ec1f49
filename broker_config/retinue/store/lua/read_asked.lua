#!lua flags=no-writes
-- One run's state, and whether it, or a run below it, asks something of a human now, or waits for a budget to be
-- raised.
-- KEYS[1] record
-- ARGV 1 T, 2 P, 3 tenant, 4 id
-- Replies {record (state, phase, agent and its document alone), mark or '', 1 (it does) or 0}; {} = no such run
--!include _clock
--!include _marks
--!include _asked
--!include _asked_now
local T = ARGV[1]
local f = redis.call('HMGET', KEYS[1], 'st', 'fi', 'ph', 'ag', 'root', 'path', 'ab', 'doc')
if not f[1] then return {} end
local state = { 'st', f[1], 'ph', f[3], 'ag', f[4], 'doc', f[8] or '' }
if f[2] then return { state, '', 0 } end
local members = redis.call('ZRANGEBYLEX', T .. 'tree:' .. f[5] .. ':ask', '[' .. f[6], '(' .. f[6] .. '\255', 'LIMIT', 0, 100)
local paused = redis.call('ZRANGEBYLEX', T .. 'tree:' .. f[5] .. ':bs', '[' .. f[6], '(' .. f[6] .. '\255', 'LIMIT', 0, 1)
return { state, marked(T, f[5], f[6], tonumber(f[7])) or '', (#paused > 0 or #asked_now(T, f[5], members, 'user') > 0) and 1 or 0 }
