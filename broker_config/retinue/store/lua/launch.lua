#!lua
-- Launches 1 to 100 runs of one session, all or none: records, requests, first messages, indexes,
-- events and, where the broker is this server, the wake-ups.
-- KEYS[1] record of the first run
-- ARGV 1 T, 2 P, 3 tenant, 4 session, 5 parent id or '', 6 parent epoch, 7 parent token, 8 parent
--   iteration or '' (launched by a tool, not by the model), 9 root's tree cap, 10 session TTL s, 11 first
--   argument of a run, 12 run whose record counts the messages of a group or '', 13 most of them,
--   then 32 per run: id, request digest, request JSON, agent, agent as JSON, queue,
--   priority, correlation digest or '', on duplicate (raise|return), parent slot, bg (in the background) or '', time-out ms (0 none), max
--   iterations, thread, thread TTL s, first message or '', at parent's end (c|a), max live children, max depth, grant
--   JSON or '', result TTL s, broker list or '', envelope or '',
--   the parent's tool in that slot as a JSON string, the first phase (queued|no_worker), digest of the agent's
--   document or '', the run that it continues or '', the run whose dead letter it replays or '', digest of its work
--   or '', most tool calls or '', most runs ever below it or '', its budget's fields as name=value,... or '',
--   who is to be told of its end (d the task that it names, s workers' hooks, w webhooks) or ''
-- Replies {OK, now, {id, NEW|REPEAT|DONE, path, depth, created}...}; {CONFLICT, id}; {DUPLICATE, id};
--   {EXISTING, id}; {CORRELATION_CONFLICT, id}; {BUSY, id of the run that writes to the thread}; {NO_LETTER, id};
--   {PARENT, reason}; {CAPACITY, limit name, limit, live}; {DEPTH, limit}; {SAME_WORK, id of the run above that is at it}
--!include _clock
--!include _deadline
--!include _marks
--!include _above
local T, P, tenant, session, parent = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local FIRST, WIDTH = tonumber(ARGV[11]), 32
local count = (#ARGV - FIRST + 1) / WIDTH
local reply, fresh = { 'OK', now }, {}
for n = 1, count do
  local at = FIRST + (n - 1) * WIDTH
  local f = redis.call('HMGET', T .. 'run:' .. ARGV[at], 'rd', 'path', 'dp', 'cr')
  if f[1] and f[1] ~= ARGV[at + 1] then return { 'CONFLICT', ARGV[at] } end
  if f[1] then
    reply[#reply + 1] = { ARGV[at], 'REPEAT', f[2], f[3], f[4] }
  else
    fresh[#fresh + 1] = at
    reply[#reply + 1] = at
  end
end
if #fresh == 0 then return reply end

local root, path, depth, above, parent_deadline, p, capped = nil, '', 0, 0, 0, nil, {}
if parent ~= '' then
  p = redis.call('HMGET', T .. 'run:' .. parent, 'ep', 'tok', 'it', 'root', 'path', 'dp', 'ab', 'dl', 'lc', 'mxc', 'mxd', 'nc',
    'hw', 'hs', 'mxt', 'bk', 'im')
  if not p[1] or p[1] ~= ARGV[6] or p[2] ~= ARGV[7] then return { 'PARENT', 'STALE' } end
  if ARGV[8] ~= '' and (p[3] ~= ARGV[8] or p[17] ~= ARGV[8]) then return { 'PARENT', 'ITERATION' } end
  -- A child that ended and expired while its parent was down must not run anew: its answer stands in the
  -- journal, or its id among those that a tool's code launched or that ran in the background.
  local left = {}
  for _, at in ipairs(fresh) do
    local done
    if ARGV[at + 9] == 'bg' then
      done = redis.call('HEXISTS', T .. 'run:' .. parent .. ':bg', ARGV[at])
    elseif ARGV[8] ~= '' then
      done = redis.call('HEXISTS', T .. 'run:' .. parent .. ':j', ARGV[at + 9])
    else
      done = redis.call('SISMEMBER', T .. 'run:' .. parent .. ':c', ARGV[at])
    end
    if done == 1 then
      for n = 3, #reply do if reply[n] == at then reply[n] = { ARGV[at], 'DONE', '', '0', '0' } end end
    else
      left[#left + 1] = at
    end
  end
  fresh = left
  if #fresh == 0 then return reply end
  root, path, depth, above, parent_deadline = p[4], p[5], tonumber(p[6]) + 1, tonumber(p[7]), moved_deadline(p[8], p[14])
  local mark = marked(T, root, path, above)
  if mark then return { 'PARENT', mark == 'c' and 'CANCELLED' or 'INTERRUPTED' } end
  if out_of_time(p[8], p[13]) then return { 'PARENT', 'DEADLINE' } end
  local tree = redis.call('HMGET', T .. 'tree:' .. root, 'n', 'mx')
  if depth > tonumber(p[11]) then return { 'DEPTH', p[11] } end
  if tonumber(p[9]) + #fresh > tonumber(p[10]) then return { 'CAPACITY', 'max_live_children', p[10], p[9] } end
  if tonumber(tree[1]) + #fresh > tonumber(tree[2]) then
    -- The root counts in both; the caller set, and is told, the number of children.
    return { 'CAPACITY', 'max_tree_children', tostring(tree[2] - 1), tostring(tree[1] - 1) }
  end
  capped = capped_above(T, root, path)
  for _, cap in ipairs(capped) do
    if cap.count + #fresh > cap.most then
      return { 'CAPACITY', 'max_tree_children', tostring(cap.most), tostring(cap.count) }
    end
  end
  -- What the members of a group write to each other is no work that is passed down.
  if ARGV[12] == '' then
    local found = same_work_above(T, parent, fresh)
    if found then return { 'SAME_WORK', found } end
  end
  if ARGV[12] ~= '' then
    local sent = redis.call('HGET', T .. 'run:' .. ARGV[12], 'gr') or '0'
    if tonumber(sent) + #fresh > tonumber(ARGV[13]) then return { 'CAPACITY', 'max_rounds', ARGV[13], sent } end
  end
end
local claimed = {}
for _, at in ipairs(fresh) do
  local digest = ARGV[at + 7]
  if digest ~= '' then
    local holder = claimed[digest] or redis.call('GET', T .. 'corr:' .. digest)
    if holder then
      if ARGV[at + 8] ~= 'return' then return { 'DUPLICATE', holder } end
      local same = redis.call('HGET', T .. 'run:' .. holder, 'rd') == ARGV[at + 1]
      return { same and 'EXISTING' or 'CORRELATION_CONFLICT', holder }
    end
    claimed[digest] = ARGV[at]
  end
end
for _, at in ipairs(fresh) do
  local letter = ARGV[at + 26]
  if letter ~= '' and redis.call('EXISTS', T .. 'dead:' .. letter) == 0 then return { 'NO_LETTER', letter } end
end
-- One writer a thread. What bears a run's name is that run's thread, and nobody else's while it lives.
local writers = {}
for _, at in ipairs(fresh) do
  local id, thread = ARGV[at], ARGV[at + 12]
  local busy = writers[thread]
  if not busy and thread ~= id then
    local began = redis.call('HMGET', T .. 'run:' .. thread, 'st', 'fi')
    busy = began[1] and not began[2] and thread or redis.call('GET', T .. 'th:' .. thread .. ':by')
  end
  if busy then return { 'BUSY', busy } end
  writers[thread] = id
end

redis.call('ZADD', P .. 'tenants', now, tenant)
local number = p and tonumber(p[12]) or 0
-- The thread of the conversation in which the members of a group write to each other.
local owner = ARGV[12] ~= '' and redis.call('HGET', T .. 'run:' .. ARGV[12], 'th')
for _, at in ipairs(fresh) do
  local id, queue = ARGV[at], ARGV[at + 5]
  local run, own_root, own_path = T .. 'run:' .. id, root or id, path .. number .. '/'
  if not root then own_path = '0/' end
  local tree, member = T .. 'tree:' .. own_root, tenant .. '/' .. id
  local timeout, deadline = tonumber(ARGV[at + 10]), parent_deadline
  if timeout > 0 and (deadline == 0 or now_ms + timeout < deadline) then deadline = now_ms + timeout end
  deadline = string.format('%.0f', deadline)
  local max_depth = p and math.min(tonumber(p[11]), tonumber(ARGV[at + 17])) or ARGV[at + 17]
  local from = ARGV[at + 15] == 'a' and depth or above
  redis.call('HSET', run, 'st', 'PENDING', 'ph', ARGV[at + 23], 'ep', 0, 'tok', '', 'own', '', 'op', '', 'rp', '',
    'root', own_root, 'par', parent, 'pc', ARGV[at + 9], 'pt', ARGV[at + 22], 'path', own_path, 'dp', depth, 'ab', from,
    'q', queue, 'pr', ARGV[at + 6], 'ag', ARGV[at + 3], 'sess', session, 'co', ARGV[at + 7], 'rd', ARGV[at + 1],
    'dl', deadline, 'it', 0, 'im', 0, 'mi', ARGV[at + 11], 'mxd', max_depth, 'mxc', ARGV[at + 16],
    'lc', 0, 'nc', 0, 'wk', 1, 'rs', 0, 'ra', 0, 'ls', 0, 'ns', 0, 'nd', 0, 'hd', 0,
    'th', ARGV[at + 12], 'tt', ARGV[at + 13], 'ttl', ARGV[at + 19], 'cr', now, 'up', now)
  redis.call('SET', run .. ':req', ARGV[at + 2])
  if ARGV[at + 14] ~= '' then redis.call('RPUSH', T .. 'th:' .. ARGV[at + 12], ARGV[at + 14]) end
  redis.call('PERSIST', T .. 'th:' .. ARGV[at + 12])
  redis.call('PERSIST', T .. 'th:' .. ARGV[at + 12] .. ':ow')
  if ARGV[at + 12] ~= id then redis.call('SET', T .. 'th:' .. ARGV[at + 12] .. ':by', id) end
  if not p and ARGV[at + 12] ~= id then
    redis.call('ZADD', T .. 'th:' .. ARGV[at + 12] .. ':tn', 0, id)
    redis.call('PERSIST', T .. 'th:' .. ARGV[at + 12] .. ':tn')
  end
  if owner then
    redis.call('HSET', run, 'gc', ARGV[12])
    redis.call('SADD', T .. 'th:' .. owner .. ':ps', ARGV[at + 12])
  elseif ARGV[at + 12] ~= id then
    -- What pairs said in earlier turns is kept for as long as their conversation goes on.
    redis.call('PERSIST', T .. 'th:' .. ARGV[at + 12] .. ':ps')
    for _, pair in ipairs(redis.call('SMEMBERS', T .. 'th:' .. ARGV[at + 12] .. ':ps')) do
      redis.call('PERSIST', T .. 'th:' .. pair)
      redis.call('PERSIST', T .. 'th:' .. pair .. ':ow')
    end
  end
  if ARGV[at + 7] ~= '' then redis.call('SET', T .. 'corr:' .. ARGV[at + 7], id) end
  if ARGV[at + 24] ~= '' then redis.call('HSET', run, 'doc', ARGV[at + 24]) end
  if ARGV[at + 25] ~= '' then redis.call('HSET', run, 'cn', ARGV[at + 25]) end
  if ARGV[at + 26] ~= '' then
    redis.call('HSET', run, 'ry', ARGV[at + 26])
    redis.call('ZREM', T .. 'dead', ARGV[at + 26])
    redis.call('DEL', T .. 'dead:' .. ARGV[at + 26])
  end
  if ARGV[at + 27] ~= '' then redis.call('HSET', run, 'wd', ARGV[at + 27]) end
  if ARGV[at + 28] ~= '' then redis.call('HSET', run, 'mtc', ARGV[at + 28]) end
  local max_tree = lowest(p and p[15] or string.format('%.0f', ARGV[9] - 1), ARGV[at + 29])
  redis.call('HSET', run, 'mxt', max_tree)
  if root and ARGV[at + 29] ~= '' then redis.call('HSET', tree, 'mx:' .. own_path, ARGV[at + 29], 'n:' .. own_path, 0) end
  local budgets = p and p[16] or ''
  if ARGV[at + 30] ~= '' then
    budgets = budgets .. (budgets ~= '' and ' ' or '') .. depth
    redis.call('HSET', tree .. ':b', own_path .. 'id', id, own_path .. 'cr', now)
    for name, value in string.gmatch(ARGV[at + 30], '(%w+)=(%w+)') do
      redis.call('HSET', tree .. ':b', own_path .. name, value)
    end
  end
  if budgets ~= '' then redis.call('HSET', run, 'bk', budgets) end
  if ARGV[at + 31] ~= '' then redis.call('HSET', run, 'tl', ARGV[at + 31]) end
  if ARGV[at + 9] == 'bg' then redis.call('HSET', T .. 'run:' .. parent .. ':bg', id, '') end
  if ARGV[at + 18] ~= '' then redis.call('HSET', tree .. ':g', own_path, ARGV[at + 18]) end
  redis.call('HINCRBY', tree, 'n', 1)
  redis.call('HINCRBY', tree, 'live', 1)
  redis.call('ZADD', tree .. ':live', 0, own_path .. ' ' .. id)
  redis.call('RPUSH', tree .. ':ev', '{"e":"run.created","r":"' .. id .. '","t":' .. now .. ',"agent":' .. ARGV[at + 4]
    .. ',"parent_id":' .. (parent == '' and 'null' or '"' .. parent .. '"') .. ',"path":"' .. own_path .. '"}')
  if deadline ~= '0' then redis.call('ZADD', P .. 'due', deadline, member) end
  redis.call('ZADD', P .. 'q:' .. queue, now, member)
  redis.call('SADD', P .. 'queues', queue)
  if not root then
    redis.call('HSET', tree, 'mx', string.format('%.0f', max_tree + 1))
    redis.call('ZADD', T .. 'sess:' .. session, now, id)
    redis.call('ZADD', T .. 'trees', now, id)
  end
  if ARGV[at + 20] ~= '' then redis.call('LPUSH', ARGV[at + 20], ARGV[at + 21]) end
  for n = 3, #reply do
    if reply[n] == at then reply[n] = { id, 'NEW', own_path, tostring(depth), now } end
  end
  number = number + 1
end
if p then
  for _, cap in ipairs(capped) do redis.call('HINCRBY', T .. 'tree:' .. root, 'n:' .. cap.path, #fresh) end
  redis.call('HINCRBY', T .. 'run:' .. parent, 'lc', #fresh)
  redis.call('HSET', T .. 'run:' .. parent, 'nc', number)
  if ARGV[12] ~= '' and redis.call('EXISTS', T .. 'run:' .. ARGV[12]) == 1 then
    redis.call('HINCRBY', T .. 'run:' .. ARGV[12], 'gr', #fresh)
  end
else
  -- The list of a session keeps live runs and those that may still be read. Looked at are some anywhere in
  -- it: the oldest may stay for long. Five for each that joins hold what has expired to a fourth of the rest.
  redis.call('EXPIRE', T .. 'sess:' .. session, ARGV[10])
  for _, id in ipairs(redis.call('ZRANDMEMBER', T .. 'sess:' .. session, 5 * #fresh)) do
    if redis.call('EXISTS', T .. 'run:' .. id) == 0 then redis.call('ZREM', T .. 'sess:' .. session, id) end
  end
  -- Whoever has launched nothing for 30 days has nothing left that a revoke could mean.
  local month_ago = string.format('%.0f', now_ms - 2592000000)
  for _, old in ipairs(redis.call('ZRANGE', P .. 'tenants', '-inf', month_ago, 'BYSCORE', 'LIMIT', 0, 10)) do
    redis.call('ZREM', P .. 'tenants', old)
  end
end
return reply
