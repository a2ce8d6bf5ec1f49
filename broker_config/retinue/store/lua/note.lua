#!lua
-- Appends an event: a model retry, which is counted, to the tree's log; a tool's progress, which changes
-- nothing else, to the run's own trimmed log, and to who listens.
-- KEYS[1] record
-- ARGV 1 T, 2 P, 3 tenant, 4 id, 5 epoch, 6 token, 7 event type, 8 rest of its JSON after the time, 9 progress kept,
--   10 the note's own id (not an operation's: notes are written beside the run's sequence of operations)
-- Replies {OK}; {STALE}
--!include _clock
--!include _usage
local T, id, run = ARGV[1], ARGV[4], KEYS[1]
local f = redis.call('HMGET', run, 'ep', 'tok', 'root', 'nt', 'path', 'par')
if not f[1] or f[1] ~= ARGV[5] or f[2] ~= ARGV[6] then return { 'STALE' } end
if f[4] == ARGV[10] then return { 'OK' } end

redis.call('HSET', run, 'nt', ARGV[10])
if ARGV[7] == 'model.retried' then
  redis.call('HINCRBY', run, 'rt', 1)
  add_above(T, f[3], f[5], f[6], 'rt', '1')
end
local event = '{"e":"' .. ARGV[7] .. '","r":"' .. id .. '","t":' .. now .. ARGV[8] .. '}'
if ARGV[7] == 'tool.progress' then
  redis.call('RPUSH', run .. ':pg', event)
  redis.call('LTRIM', run .. ':pg', -tonumber(ARGV[9]), -1)
  local tree = T .. 'tree:' .. f[3]
  if redis.call('EXISTS', tree .. ':heard') == 1 then redis.call('PUBLISH', tree .. ':news', event) end
else
  redis.call('RPUSH', T .. 'tree:' .. f[3] .. ':ev', event)
end
return { 'OK' }
