#!lua flags=allow-oom
-- Records a model response before anything acts on it: the steers it has seen, the assistant's
-- message, usage. No mark is looked at: a response that was paid for is kept.
-- KEYS[1] record
-- ARGV 1 T, 2 P, 3 tenant, 4 id, 5 epoch, 6 token, 7 operation, 8 iteration, 9 thread length before, 10 steers
--   delivered, 11 phase after, 12 partial text JSON or '', 13-16 input, output, cached, reasoning tokens, 17 how the
--   response ended (stop|length|refused), 18 count of messages, 19 cost in micro-USD or '' (unknown), 20 how many of its
--   calls count, then the messages, then the tool names as JSON strings
-- Replies {OK, iteration:how many of its calls a budget allows or '' (all), wake-ups by freed budget}; {STALE};
--   {BEHIND} (the store has lost what the attempt wrote before)
--!include _clock
--!include _usage
--!include _queue
--!include _account
--!include _budget
local T, P, id, run = ARGV[1], ARGV[2], ARGV[4], KEYS[1]
local f = redis.call('HMGET', run, 'ep', 'tok', 'op', 'root', 'th', 'nd', 'it', 'im', 'path', 'par', 'bk', 'bta')
if not f[1] or f[1] ~= ARGV[5] or f[2] ~= ARGV[6] then return { 'STALE' } end
if f[3] == ARGV[7] then return { 'OK', f[12] or '', {} } end
local thread = T .. 'th:' .. f[5]
-- A passed boundary allows one response.
if redis.call('LLEN', thread) ~= tonumber(ARGV[9]) or f[7] ~= ARGV[8] or f[8] == ARGV[8] then return { 'BEHIND' } end

local events, at = T .. 'tree:' .. f[4] .. ':ev', '","t":' .. now .. ',"iteration":' .. ARGV[8]
local delivered, messages = tonumber(f[6]), tonumber(ARGV[18])
for n = delivered + 1, delivered + tonumber(ARGV[10]) do
  local steer = redis.call('HGET', run .. ':s', 'i' .. n)
  redis.call('HSET', run .. ':s', '#' .. steer, 'd' .. ARGV[8])
  redis.call('RPUSH', events, '{"e":"steer.delivered","r":"' .. id .. at .. ',"steer":"' .. steer .. '"}')
end
for n = 21, 20 + messages do redis.call('RPUSH', thread, ARGV[n]) end
if ARGV[12] ~= '' then redis.call('SET', run .. ':part', ARGV[12]) end
redis.call('RPUSH', events, '{"e":"model.finished","r":"' .. id .. at .. ',"input_tokens":' .. ARGV[13]
  .. ',"output_tokens":' .. ARGV[14] .. '}')
for n = 21 + messages, #ARGV do
  redis.call('RPUSH', events, '{"e":"tool.started","r":"' .. id .. at .. ',"index":' .. (n - 21 - messages)
    .. ',"tool":' .. ARGV[n] .. '}')
end
for n, field in ipairs({ 'tin', 'tout', 'tca', 'tre' }) do
  if ARGV[12 + n] ~= '0' then redis.call('HINCRBY', run, field, ARGV[12 + n]) end
end
if ARGV[19] == '' then
  lose_cost(T, id, f[4], f[9], f[10])
elseif ARGV[19] ~= '0' then
  redis.call('HINCRBY', run, 'usd', ARGV[19])
end
add_above(T, f[4], f[9], f[10], 'in', ARGV[13], 'out', ARGV[14], 'ca', ARGV[15], 're', ARGV[16], 'mc', '1', 'usd', ARGV[19])
redis.call('HSET', run, 'ph', ARGV[11], 'im', ARGV[8], 'nd', string.format('%.0f', delivered + tonumber(ARGV[10])),
  'fr', ARGV[17], 'op', ARGV[7], 'rp', '', 'up', now)
if not f[11] then return { 'OK', '', {} } end

local budgets = budgets_of(T, P, ARGV[3], f[4])
local accounts, own = budgets.accounts_of(f[9], f[11]), budgets.reservation_of(run)
local calls, said = budgets.charge(accounts, own or { i = 0, o = 0, u = 0 }, tonumber(ARGV[13]), tonumber(ARGV[14]),
  tonumber(ARGV[19]), tonumber(ARGV[20])), ''
budgets.reserve(run, accounts, own, nil)
budgets.warn(accounts)
if calls then
  said = ARGV[8] .. ':' .. string.format('%.0f', calls)
  redis.call('HSET', run, 'bta', said)
end
return { 'OK', said, budgets.wake() }
