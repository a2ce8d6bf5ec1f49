#!lua flags=no-writes
-- What the runs of a subtree ask of a human now; some runs a call.
-- KEYS[1] record of the subtree's root
-- ARGV 1 T, 2 P, 3 tenant, 4 id, 5 cursor ('' = from the start), 6 most runs a call
-- Replies {cursor ('' = done), {id, agent, slot, request}...}
--!include _clock
--!include _marks
--!include _asked
--!include _asked_now
local T = ARGV[1]
local f = redis.call('HMGET', KEYS[1], 'root', 'path')
if not f[1] then return { '' } end
local from = ARGV[5] == '' and '[' .. f[2] or '(' .. ARGV[5]
local members = redis.call('ZRANGEBYLEX', T .. 'tree:' .. f[1] .. ':ask', from, '(' .. f[2] .. '\255', 'LIMIT', 0, ARGV[6])
local reply = asked_now(T, f[1], members)
table.insert(reply, 1, #members == tonumber(ARGV[6]) and members[#members] or '')
return reply
