#!lua flags=no-writes
-- A part of a tree's live runs as a list of what goes on shows them, with the ended ones above them.
-- KEYS[1] the tree's live runs
-- ARGV 1 T, 2 root, 3 place to read from (0 = the first), 4 most live runs, 5.. fields of a record; the first is the parent
-- Replies {live runs in all, {id, mark or '', value of each field}...}, each run once; of one that has expired nothing
--!include _marks
local T, root, from = ARGV[1], ARGV[2], tonumber(ARGV[3])
local names, seen = {}, {}
for n = 5, #ARGV do names[#names + 1] = ARGV[n] end
local reply = { redis.call('ZCARD', KEYS[1]) }
for _, entry in ipairs(redis.call('ZRANGE', KEYS[1], from, from + tonumber(ARGV[4]) - 1)) do
  local id = string.match(entry, ' (%S+)$')
  while id and id ~= '' and not seen[id] do
    seen[id] = true
    local run = T .. 'run:' .. id
    local f, where = redis.call('HMGET', run, unpack(names)), redis.call('HMGET', run, 'path', 'ab', 'fi')
    if not where[1] then break end
    reply[#reply + 1] = { id, not where[3] and marked(T, root, where[1], tonumber(where[2])) or '', f }
    id = f[1]
  end
end
return reply
