#!lua flags=allow-oom
-- Leaves the worker while calls are open, and asks what they wait for of a human, or of the model of the run that
-- started it in the background. Answers READY instead where all have been answered meanwhile, APPROVED where some
-- may be run.
-- KEYS[1] record
-- ARGV 1 T, 2 P, 3 tenant, 4 id, 5 epoch, 6 token, 7 operation, 8 phase (waiting_...), 9 ms that a human has, 10.. per
--   call: slot, kind:detail (child:id, approval:argument hash, input:argument hash, or
--   question:argument hash for an input that the model above is asked for, if there is one), the tool as a JSON string and
--   the rest of the request's JSON members (both '' for a child); of a call that waits for children in the background
--   one for each, <slot>@<child>, with child:<child> (for all of them) or any:<child>
-- Replies {SUSPENDED, open, parent's wake-up or nothing}; {READY}; {APPROVED, slots...}; {STALE}; {BEHIND} (the
--   store has lost what the attempt wrote before); {CANCEL}; {INTERRUPT}; {DEADLINE}
--!include _clock
--!include _deadline
--!include _marks
--!include _usage
--!include _queue
--!include _asked
--!include _questions
local T, P, id, run = ARGV[1], ARGV[2], ARGV[4], KEYS[1]
local f = redis.call('HMGET', run, 'ep', 'tok', 'op', 'rp', 'root', 'path', 'ab', 'dl', 'own', 'hw', 'par', 'im')
if not f[1] then return { 'STALE' } end
-- The first call dropped the token, so its repeat is known before the fence.
if f[3] == ARGV[7] then
  local count, number = string.match(f[4], '^(%d+)/(%d*)$')
  return { 'SUSPENDED', count, number ~= '' and wake_up(T, f[11], number) or nil }
end
if f[1] ~= ARGV[5] or f[2] ~= ARGV[6] then return { 'STALE' } end
-- Nobody would ever answer what the store does not know of.
if ARGV[10] and string.match(ARGV[10], '^%d+') ~= f[12] then return { 'BEHIND' } end
local mark = marked(T, f[5], f[6], tonumber(f[7]))
if mark then return { mark == 'c' and 'CANCEL' or 'INTERRUPT' } end
if out_of_time(f[8], f[10]) then return { 'DEADLINE' } end
local waits, over = {}, {}
for n = 10, #ARGV, 4 do
  local call, child = string.match(ARGV[n], '^(.+)@(.+)$')
  if child then
    local stands = redis.call('HGET', run .. ':bg', child)
    waits[n] = stands == ''
    -- Once a child asks there is something to answer, whatever the others do.
    if stands == '?' or (not waits[n] and string.sub(ARGV[n + 1], 1, 4) == 'any:') then over[call] = true end
  else
    waits[n] = redis.call('HEXISTS', run .. ':j', ARGV[n]) == 0
    local awaited = waits[n] and string.match(ARGV[n + 1], '^child:(.+)$')
    if awaited and redis.call('EXISTS', T .. 'run:' .. awaited) == 0 then return { 'BEHIND' } end
  end
end
local open, fresh, approved = {}, {}, { 'APPROVED' }
for n = 10, #ARGV, 4 do
  local slot = ARGV[n]
  if waits[n] and not over[string.match(slot, '^(.+)@') or ''] then
    open[#open + 1] = slot
    open[#open + 1] = string.gsub(ARGV[n + 1], '^question:', 'input:')
    if ARGV[n + 2] ~= '' then
      local asked = redis.call('HMGET', run .. ':a', slot, '!' .. slot)
      if asked[2] then approved[#approved + 1] = slot end
      if not asked[1] and not asked[2] then fresh[#fresh + 1] = n end
    end
  end
end
if #open == 0 then return { 'READY' } end
if #approved > 1 then return approved end

local events, wakeup = T .. 'tree:' .. f[5] .. ':ev', nil
if #fresh > 0 then
  local expires, questions = string.format('%.0f', now_ms + tonumber(ARGV[9])), 0
  local has_model = has_model_above(T, id, f[11])
  for _, n in ipairs(fresh) do
    local kind, hash = string.match(ARGV[n + 1], '^(%a+):(%x+)$')
    local audience = kind == 'question' and has_model and 'parent' or 'user'
    if audience == 'parent' then questions = questions + 1 end
    if kind == 'question' then kind = 'input' end
    local asked = '{"kind":"' .. kind .. '","argument_hash":"' .. hash .. '","asked_ms":' .. now .. ',"expires_ms":' .. expires
      .. ',"audience":"' .. audience .. '",\n"tool":' .. ARGV[n + 2] .. ',\n' .. ARGV[n + 3] .. '}'
    redis.call('HSET', run .. ':a', ARGV[n], asked)
    tell_request(events, id, ARGV[n], asked)
  end
  local awaited = redis.call('HINCRBY', run, 'na', #fresh) - tonumber(redis.call('HGET', run, 'nq') or '0')
  if #fresh > questions and awaited == #fresh then count_awaited(T, P, ARGV[3], id, 1) end
  if questions > 0 then wakeup = ask_parent(T, P, ARGV[3], id, f[11], questions) end
  redis.call('ZADD', T .. 'tree:' .. f[5] .. ':ask', 0, f[6] .. ' ' .. id)
  redis.call('ZADD', P .. 'due', 'LT', expires, ARGV[3] .. '/' .. id)
  wake_watchers(T, P, id)
end
local count = tostring(#open / 2)
-- One by one: thousands are more than `unpack` takes.
for n = 1, #open, 2 do redis.call('HSET', run .. ':e', open[n], open[n + 1]) end
redis.call('HSET', run, 'st', 'RUNNING', 'ph', ARGV[8], 'tok', '', 'own', '', 'op', ARGV[7],
  'rp', count .. '/' .. (wakeup and wakeup[2] or ''), 'se', f[1], 'ws', now, 'up', now)
redis.call('SREM', P .. 'own:' .. f[9], ARGV[3] .. '/' .. id)
redis.call('RPUSH', events, '{"e":"run.suspended","r":"' .. id .. '","t":' .. now
  .. ',"phase":"' .. ARGV[8] .. '","open":' .. count .. '}')
return { 'SUSPENDED', count, wakeup }
