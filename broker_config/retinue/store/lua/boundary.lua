#!lua
-- The iteration boundary, just before a model request: checks what may stop the run, moves the
-- journal's results into the thread in request order, hands out steers, pins the spec at the first.
-- KEYS[1] record
-- ARGV 1 T, 2 P, 3 tenant, 4 id, 5 epoch, 6 token, 7 operation, 8 thread length before, 9 spec digest, 10 spec
--   JSON ('' = pinned already), 11 max iterations, 12 model, 13 provider (these with the spec), 14.. pairs of slot
--   (iteration:index) and the head of its message
-- Replies {GO, iteration, moved messages, steers}; {STALE}; {CANCEL}; {INTERRUPT}; {DEADLINE}; {MAX_ITERATIONS, limit};
--   {MISSING, slot}; {LENGTH, length}
--!include _clock
--!include _marks
local T, P, id, run = ARGV[1], ARGV[2], ARGV[4], KEYS[1]
local f = redis.call('HMGET', run, 'ep', 'tok', 'op', 'root', 'path', 'ab', 'dl', 'it', 'im', 'mi', 'th', 'ns', 'nd', 'hd', 'st')
if not f[1] or f[1] ~= ARGV[5] or f[2] ~= ARGV[6] then return { 'STALE' } end
local thread, before = T .. 'th:' .. f[11], tonumber(ARGV[8])

local function steers(upto)
  local texts = {}
  for n = tonumber(f[13]) + 1, upto do texts[#texts + 1] = redis.call('HGET', run .. ':s', 't' .. n) end
  return texts
end

if f[3] == ARGV[7] then
  return { 'GO', f[8], redis.call('LRANGE', thread, before, -1), steers(tonumber(f[14])) }
end
local mark = marked(T, f[4], f[5], tonumber(f[6]))
if mark then return { mark == 'c' and 'CANCEL' or 'INTERRUPT' } end
if tonumber(f[7]) > 0 and now_ms >= tonumber(f[7]) then return { 'DEADLINE' } end
-- A boundary whose response was never recorded is passed again under the same number.
local iteration = tonumber(f[9]) + 1
local most = ARGV[10] ~= '' and ARGV[11] or f[10]
if iteration > tonumber(most) then return { 'MAX_ITERATIONS', most } end
local length = redis.call('LLEN', thread)
if length ~= before then return { 'LENGTH', tostring(length) } end
local slots, messages = {}, {}
for n = 14, #ARGV, 2 do slots[#slots + 1] = ARGV[n] end
if #slots > 0 then
  local values = redis.call('HMGET', run .. ':j', unpack(slots))
  for n = 1, #slots do
    if not values[n] then return { 'MISSING', slots[n] } end
    messages[n] = ARGV[13 + 2 * n] .. values[n] .. '}'
  end
end

if #slots > 0 then
  for n = 1, #messages do redis.call('RPUSH', thread, messages[n]) end
  redis.call('DEL', run .. ':j', run .. ':c')
end
if ARGV[10] ~= '' then
  redis.call('HSET', T .. 'tree:' .. f[4] .. ':sp', ARGV[9], ARGV[10])
  redis.call('HSET', run, 'dg', ARGV[9], 'mi', most, 'md', ARGV[12], 'pv', ARGV[13])
end
redis.call('HSET', run, 'st', 'RUNNING', 'ph', 'model_call', 'it', iteration, 'hd', f[12], 'op', ARGV[7], 'rp', '',
  'up', now)
redis.call('RPUSH', T .. 'tree:' .. f[4] .. ':ev',
  '{"e":"model.started","r":"' .. id .. '","t":' .. now .. ',"iteration":' .. iteration .. '}')
return { 'GO', tostring(iteration), messages, steers(tonumber(f[12])) }
