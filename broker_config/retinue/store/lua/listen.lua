#!lua
-- Marks a tree as listened to, and tells the owners of its runs that wait for a model just now: their boundary is
-- passed already. The other runs see the marker at theirs.
-- KEYS[1] marker
-- ARGV 1 T, 2 root, 3 ms that the marker lasts, 4 most runs to look at
-- Replies {OK, runs whose owners were told}
local T, tree = ARGV[1], ARGV[1] .. 'tree:' .. ARGV[2]
redis.call('SET', KEYS[1], '', 'PX', ARGV[3])
local told = 0
for _, member in ipairs(redis.call('ZRANGE', tree .. ':live', 0, tonumber(ARGV[4]) - 1)) do
  local id = string.match(member, ' (%S+)$')
  local f = redis.call('HMGET', T .. 'run:' .. id, 'own', 'ph')
  if f[1] and f[1] ~= '' and f[2] == 'model_call' then
    redis.call('PUBLISH', 'retinue:process:' .. f[1], 'listened/' .. id .. ' news')
    told = told + 1
  end
end
return { 'OK', told }
