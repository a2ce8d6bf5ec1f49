#!lua
-- Takes a queued run for a worker process: epoch + 1, the token, the owner set; hands out all that
-- the worker needs. Ends the run instead where a mark or its deadline says so.
-- KEYS[1] record
-- ARGV 1 T, 2 P, 3 tenant, 4 id, 5 token, 6 process, 7 agents that this process runs, each
--   "\n<name>\t<l|o>" (loop, object), and a closing "\n", 8 this process runs nothing else beside it (1|0),
--   9 its hooks are to be told of the run's end (1|0)
-- Replies {CLAIMED, epoch, now, record, request, spec, thread, journal, grants, decisions}; {GONE}; {NOT_QUEUED, phase};
--   {NOT_CAPABLE, agent}; {SUSPECT} (a process was lost with it: only one that it has to itself may go on); {ENDED, state, parent's wake-up or nothing,
--   wake-ups by freed budget}
--!include _clock
--!include _deadline
--!include _marks
--!include _usage
--!include _count
--!include _queue
--!include _account
--!include _budget
--!include _asked
--!include _questions
--!include _requests
--!include _end
--!include _stop
local T, P, tenant, id, token = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local run, member = KEYS[1], tenant .. '/' .. id
local f = redis.call('HMGET', run, 'st', 'ph', 'ep', 'tok', 'root', 'path', 'ab', 'dl', 'ag', 'q', 'th', 'fi', 'rp', 'op', 'par', 'doc', 'ls', 'hw', 'tl')
if not f[1] then return { 'GONE' } end

local function handed_out(epoch)
  local prefixes = {}
  for stop in string.gmatch(f[6], '()/') do prefixes[#prefixes + 1] = string.sub(f[6], 1, stop) end
  local record = redis.call('HGETALL', run)
  local g = redis.call('HMGET', run, 'dg', 'na', 'im')
  local spec, decisions = g[1], {}
  if g[2] then
    -- What became of the running iteration's requests; an open one stands for itself.
    local prefix, flat = g[3] .. ':', redis.call('HGETALL', run .. ':a')
    for n = 1, #flat, 2 do
      local mark, slot = string.match(flat[n], '^(!?)(.*)$')
      if string.sub(slot, 1, #prefix) == prefix then
        decisions[#decisions + 1] = slot
        decisions[#decisions + 1] = mark == '' and 'o' or string.sub(flat[n + 1], 1, 1)
      end
    end
  end
  -- Only a recorded response asks for calls.
  local journal = g[3] ~= '0' and redis.call('HGETALL', run .. ':j') or {}
  return { 'CLAIMED', epoch, now, record, redis.call('GET', run .. ':req'),
    spec and redis.call('HGET', T .. 'tree:' .. f[5] .. ':sp', spec) or false,
    redis.call('LRANGE', T .. 'th:' .. f[11], 0, -1), journal,
    redis.call('HMGET', T .. 'tree:' .. f[5] .. ':g', unpack(prefixes)), decisions }
end

if f[12] then
  -- The repeat of a claim that ended the run answers as the first did.
  if f[14] == token and f[13] ~= '' then return { 'ENDED', f[1], wake_up(T, f[15], f[13]) } end
  return { 'ENDED', f[1] }
end
if f[4] == token then return handed_out(f[3]) end
if f[2] ~= 'queued' and f[2] ~= 'no_worker' then return { 'NOT_QUEUED', f[2] } end
local kind = 'l'
-- An agent that stands in a document of its own is run by the loop of any worker.
if f[9] ~= '' and not f[16] then
  local at, stop = string.find(ARGV[7], '\n' .. f[9] .. '\t', 1, true)
  if not at then return { 'NOT_CAPABLE', f[9] } end
  kind = string.sub(ARGV[7], stop + 1, stop + 1)
end
local function note_hooks()
  local told = f[19] or ''
  if ARGV[9] == '1' and not string.find(told, 's', 1, true) then redis.call('HSET', run, 'tl', told .. 's') end
end

local mark = marked(T, f[5], f[6], tonumber(f[7]))
local late = out_of_time(f[8], f[18])
if mark or late then
  note_hooks()
  local state, wakeup, woken = stop_run(T, P, tenant, id, now, mark or 'd')
  redis.call('HSET', run, 'op', token, 'rp', wakeup and wakeup[2] or '')
  return { 'ENDED', state, wakeup or false, woken }
end
if f[17] ~= '0' and ARGV[8] ~= '1' then return { 'SUSPECT' } end

note_hooks()
local epoch = redis.call('HINCRBY', run, 'ep', 1)
redis.call('ZREM', P .. 'q:' .. f[10], member)
redis.call('SADD', P .. 'own:' .. ARGV[6], member)
local first = f[1] == 'PENDING'
local state, phase = first and 'STARTING' or 'RUNNING', first and 'claimed' or 'tool_call'
-- An object knows no boundary: it passes STARTING in this very step.
if kind == 'o' then state, phase = 'RUNNING', 'tool_call' end
redis.call('HSET', run, 'st', state, 'ph', phase, 'tok', token, 'own', ARGV[6], 'op', '', 'rp', '', 'up', now, 'cs', kind,
  unpack(first and { 'sa', now } or {}))
if kind == 'o' then lose_cost(T, id, f[5], f[6], f[15]) end
if first then
  add_above(T, f[5], f[6], f[15], 'at', '1')
  redis.call('RPUSH', T .. 'tree:' .. f[5] .. ':ev', '{"e":"run.started","r":"' .. id .. '","t":' .. now
    .. ',"attempt":1,"process":"' .. ARGV[6] .. '"}')
end
return handed_out(epoch)
