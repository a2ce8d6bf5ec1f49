#!lua
-- The iteration boundary, just before a model request: checks what may stop the run, moves the
-- journal's results into the thread in request order, hands out steers, pins the spec at the first.
-- KEYS[1] record
-- ARGV 1 T, 2 P, 3 tenant, 4 id, 5 epoch, 6 token, 7 operation, 8 thread length before, 9 spec digest, 10 spec
--   JSON ('' = pinned already), 11 max iterations, 12 model, 13 provider, 14 most tool calls or '' (these with the
--   spec), 15-17 input tokens, output tokens and micro-USD that the request may take ('' = its price is not known),
--   18 micro-USD of 100,000 input tokens more (these only under a budget), 19.. pairs of slot (iteration:index) and
--   the head of its message
-- Replies {GO, iteration, moved messages, steers, 1 = somebody listens}; {STALE}; {BEHIND} (the store has lost what the
--   attempt wrote before); {CANCEL}; {INTERRUPT}; {DEADLINE}; {MAX_ITERATIONS, limit}; {UNPRICED}; {SPENT, what, used,
--   limit}; {PAUSED, w (waits for others' reservations) | s (spent, waits for a raise), wake-ups by freed budget}: the
--   run has left its worker
--!include _clock
--!include _deadline
--!include _marks
--!include _usage
--!include _queue
--!include _account
--!include _budget
local T, P, id, run = ARGV[1], ARGV[2], ARGV[4], KEYS[1]
local f = redis.call('HMGET', run, 'ep', 'tok', 'op', 'root', 'path', 'ab', 'dl', 'it', 'im', 'mi', 'th', 'ns', 'nd', 'hd', 'st', 'hw', 'bk', 'rp',
  'own')
-- A pause dropped the token, so its repeat is known before the fence.
if f[3] == ARGV[7] and f[18] ~= '' then return { 'PAUSED', f[18], {} } end
if not f[1] or f[1] ~= ARGV[5] or f[2] ~= ARGV[6] then return { 'STALE' } end
local thread, before = T .. 'th:' .. f[11], tonumber(ARGV[8])

local function steers(upto)
  local texts = {}
  for n = tonumber(f[13]) + 1, upto do texts[#texts + 1] = redis.call('HGET', run .. ':s', 't' .. n) end
  return texts
end

local function is_heard()
  return redis.call('EXISTS', T .. 'tree:' .. f[4] .. ':heard')
end

if f[3] == ARGV[7] then
  return { 'GO', f[8], redis.call('LRANGE', thread, before, -1), steers(tonumber(f[14])), is_heard() }
end
local mark = marked(T, f[4], f[5], tonumber(f[6]))
if mark then return { mark == 'c' and 'CANCEL' or 'INTERRUPT' } end
if out_of_time(f[7], f[16]) then return { 'DEADLINE' } end
-- A boundary whose response was never recorded is passed again under the same number.
local iteration = tonumber(f[9]) + 1
local most = ARGV[10] ~= '' and ARGV[11] or f[10]
if iteration > tonumber(most) then return { 'MAX_ITERATIONS', most } end
local length = redis.call('LLEN', thread)
if length ~= before then return { 'BEHIND' } end
local slots, messages = {}, {}
for n = 19, #ARGV, 2 do slots[#slots + 1] = ARGV[n] end
if #slots > 0 then
  local values = redis.call('HMGET', run .. ':j', unpack(slots))
  for n = 1, #slots do
    if not values[n] then return { 'BEHIND' } end
    messages[n] = ARGV[18 + 2 * n] .. values[n] .. '}'
  end
end
local texts = steers(tonumber(f[12]))
if f[17] then
  local budgets = budgets_of(T, P, ARGV[3], f[4])
  local accounts, own = budgets.accounts_of(f[5], f[17]), budgets.reservation_of(run)
  local need, more = { i = tonumber(ARGV[15]) or 0, o = tonumber(ARGV[16]) or 0, u = tonumber(ARGV[17]) }, 0
  -- What joins the thread here, the worker has not seen: three bytes are a token or less.
  for _, text in ipairs(messages) do more = more + math.ceil(#text / 3) end
  for _, text in ipairs(texts) do more = more + math.ceil(#text / 3) end
  for _, account in ipairs(accounts) do
    if account.cu and not need.u then return { 'UNPRICED' } end
  end
  need.i, need.u = need.i + more, need.u and need.u + math.ceil(more * (tonumber(ARGV[18]) or 0) / 100000) or 0
  local short = budgets.shortage(accounts, need, own)
  if short and short.stops then
    return { 'SPENT', short.name, budgets.shown(short.name, short.used), budgets.shown(short.name, short.limit) }
  end
  if short then
    local why = short.spent and 's' or 'w'
    budgets.reserve(run, accounts, own, nil)
    redis.call('HSET', run, 'st', 'RUNNING', 'ph', 'paused_budget', 'tok', '', 'own', '', 'op', ARGV[7], 'rp', why, 'se', f[1],
      'ws', now, 'up', now, 'nin', string.format('%.0f', need.i), 'nout', string.format('%.0f', need.o), 'nus',
      string.format('%.0f', need.u))
    redis.call('SREM', P .. 'own:' .. f[19], ARGV[3] .. '/' .. id)
    redis.call('RPUSH', T .. 'tree:' .. f[4] .. ':ev', '{"e":"run.suspended","r":"' .. id .. '","t":' .. now
      .. ',"phase":"paused_budget","open":0}')
    budgets.wait(f[5], id, short)
    return { 'PAUSED', why, own and budgets.wake() or {} }
  end
  budgets.reserve(run, accounts, own, need)
end

if #slots > 0 then
  for n = 1, #messages do redis.call('RPUSH', thread, messages[n]) end
  redis.call('DEL', run .. ':j', run .. ':c')
end
if ARGV[10] ~= '' then
  redis.call('HSET', T .. 'tree:' .. f[4] .. ':sp', ARGV[9], ARGV[10])
  redis.call('HSET', run, 'dg', ARGV[9], 'mi', most, 'md', ARGV[12], 'pv', ARGV[13])
  if ARGV[14] ~= '' then redis.call('HSET', run, 'mtc', ARGV[14]) else redis.call('HDEL', run, 'mtc') end
end
redis.call('HSET', run, 'st', 'RUNNING', 'ph', 'model_call', 'it', iteration, 'hd', f[12], 'op', ARGV[7], 'rp', '',
  'up', now)
redis.call('RPUSH', T .. 'tree:' .. f[4] .. ':ev',
  '{"e":"model.started","r":"' .. id .. '","t":' .. now .. ',"iteration":' .. iteration .. '}')
return { 'GO', tostring(iteration), messages, texts, is_heard() }
