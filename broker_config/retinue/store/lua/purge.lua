#!lua flags=allow-oom
-- Removes ended runs of one subtree, with the conversations that are named after them; nothing while a run of the
-- subtree or of such a conversation lives. What is too much for one call is left for the next.
-- KEYS[1] record of the subtree's top
-- ARGV 1 T, 2 P, 3 tenant, 4 id of the top, 5 session, 6 root, 7 path of the top, 8 what else goes with the top: tree,
--   tree and turn (its conversation goes too) or '', 9 the conversation's thread or '', 10 most runs and threads a
--   call, 11 how many events are blanked, then for each its index and its new JSON, then ids of runs; the top is last
-- Replies {OK, records removed, ids that are done with}; {LIVE, id}
--!include _account
local T, P, top, root, top_path, goes = ARGV[1], ARGV[2], ARGV[4], ARGV[6], ARGV[7], ARGV[8]
local tree, left = T .. 'tree:' .. root, tonumber(ARGV[10])
local FIRST = 12 + 2 * tonumber(ARGV[11])
local live = redis.call('ZRANGEBYLEX', tree .. ':live', '[' .. top_path, '(' .. top_path .. '\255', 'LIMIT', 0, 1)[1]
if live then return { 'LIVE', string.match(live, ' (%S+)$') } end
-- A conversation may have gone on since it was looked at.
for at = FIRST, #ARGV do
  local writer = redis.call('GET', T .. 'th:' .. ARGV[at] .. ':by')
  if writer and not (ARGV[at] == top and goes == 'tree') then return { 'LIVE', writer } end
end

for at = 12, FIRST - 2, 2 do
  if redis.call('EXISTS', tree .. ':ev') == 1 then redis.call('LSET', tree .. ':ev', ARGV[at], ARGV[at + 1]) end
end

local function remove_thread(thread)
  local key = T .. 'th:' .. thread
  redis.call('UNLINK', key, key .. ':ow', key .. ':ps')
end

-- The threads of a conversation's pairs, and of theirs: what a pair leads to is led to by the conversation before the
-- pair goes, so that each goes once, in whatever circle they stand. Returns whether none is left.
local function remove_pairs(thread)
  local key = T .. 'th:' .. thread .. ':ps'
  while left > 0 do
    local pair = redis.call('SRANDMEMBER', key)
    if not pair then return true end
    if pair ~= thread then
      redis.call('SUNIONSTORE', key, key, T .. 'th:' .. pair .. ':ps')
      remove_thread(pair)
    end
    redis.call('SREM', key, pair)
    left = left - 1
  end
  return redis.call('EXISTS', key) == 0
end

local function forget_path(path)
  redis.call('HDEL', tree, 'n:' .. path, 'mx:' .. path)
  redis.call('HDEL', tree .. ':g', path)
  redis.call('HDEL', tree .. ':m', path)
  for _, field in ipairs(account_fields()) do redis.call('HDEL', tree .. ':b', path .. field) end
end

local function remove_letter(id)
  redis.call('ZREM', T .. 'dead', id)
  redis.call('DEL', T .. 'dead:' .. id)
end

local function remove_record(id, keeps_request)
  local run = T .. 'run:' .. id
  local f = redis.call('HMGET', run, 'co', 'path')
  if f[1] and f[1] ~= '' and redis.call('GET', T .. 'corr:' .. f[1]) == id then redis.call('DEL', T .. 'corr:' .. f[1]) end
  if f[2] and goes == '' then forget_path(f[2]) end
  remove_letter(id)
  redis.call('UNLINK', T .. 'out:' .. id, T .. 'out:' .. id .. ':req')
  for _, kind in ipairs({ 'd', 's', 'w' }) do redis.call('ZREM', P .. 'out:' .. kind, ARGV[3] .. '/' .. id) end
  for _, part in ipairs({ ':res', ':part', ':j', ':bg', ':c', ':e', ':a', ':s', ':pg' }) do redis.call('UNLINK', run .. part) end
  if not keeps_request then redis.call('UNLINK', run .. ':req') end
  return redis.call('UNLINK', run)
end

-- Letters of runs below may have outlived the log that told of these.
local function remove_tree()
  for _, id in ipairs(redis.call('ZRANGE', T .. 'dead', 0, -1)) do
    if redis.call('HGET', T .. 'dead:' .. id, 'root') == top then remove_letter(id) end
  end
  for _, part in ipairs({ ':m', ':g', ':sp', ':b', ':ev', '' }) do redis.call('UNLINK', tree .. part) end
  redis.call('ZREM', T .. 'sess:' .. ARGV[5], top)
end

local removed, done = 0, 0
for at = FIRST, #ARGV do
  local id = ARGV[at]
  local keeps = id == top and goes == 'tree'
  if left <= 0 or not (keeps or remove_pairs(id)) then break end
  if not keeps then remove_thread(id) end
  if id == top and goes ~= '' then remove_tree() end
  removed = removed + remove_record(id, keeps)
  if id == top and goes == 'tree and turn' then redis.call('ZREM', T .. 'th:' .. ARGV[9] .. ':tn', id) end
  left, done = left - 1, done + 1
end
return { 'OK', removed, done }
