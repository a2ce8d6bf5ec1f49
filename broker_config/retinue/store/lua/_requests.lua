-- Closing what a run asks. Needs _clock, _deadline, _count, _queue, _asked and _questions.

-- Its event.
local function tell_decision(events, id, slot, kind, decision, reason)
  local iteration, index = string.match(slot, '^(%d+):(%d+)$')
  redis.call('RPUSH', events, '{"e":"' .. (kind == 'approval' and 'approval.decided' or 'input.answered') .. '","r":"' .. id
    .. '","t":' .. now .. ',"iteration":' .. iteration .. ',"index":' .. index .. ',"decision":"' .. decision
    .. '","reason":' .. reason .. '}')
  return iteration, index
end

-- Wakes a suspended run one of whose calls was closed: once none is open, or at once, for a call that
-- is to be run. Else it says what the run still waits for. Returns the wake-up or nil.
local function wake_owner(T, P, tenant, id, slot, at_once)
  local run = T .. 'run:' .. id
  local phase = redis.call('HGET', run, 'ph')
  if string.sub(phase, 1, 7) ~= 'waiting' then return nil end
  redis.call('HDEL', run .. ':e', slot)
  if at_once then redis.call('DEL', run .. ':e') end
  local left = redis.call('HVALS', run .. ':e')
  if #left == 0 then return queue_run(T, P, tenant, id, now) end
  local kinds = {}
  for _, detail in ipairs(left) do kinds[string.match(detail, '^%a+')] = true end
  phase = kinds.input and 'waiting_input' or kinds.approval and 'waiting_approval' or 'waiting_children'
  redis.call('HSET', run, 'ph', phase)
  return nil
end

-- Closes an open request. `letter` and `decision` (word, id) say how, `reason` is a JSON string, `result`
-- the one that the model reads, as a JSON string, or nil for a call that is to be run. Returns the owner's
-- wake-up or nil.
local function close_request(T, P, tenant, id, slot, request, letter, decision, decision_id, reason, result)
  local run = T .. 'run:' .. id
  local f = redis.call('HMGET', run, 'root', 'path', 'dl', 'par')
  local events = T .. 'tree:' .. f[1] .. ':ev'
  local iteration, index = tell_decision(events, id, slot, request.kind, decision, reason)
  redis.call('HDEL', run .. ':a', slot)
  redis.call('HSET', run, 'up', now)
  local left = redis.call('HINCRBY', run, 'na', -1)
  if left == 0 then
    redis.call('ZREM', T .. 'tree:' .. f[1] .. ':ask', f[2] .. ' ' .. id)
    if f[3] == '0' then redis.call('ZREM', P .. 'due', tenant .. '/' .. id) end
  end
  if request.audience == 'parent' then
    settle_question(T, id, f[4])
  elseif left == tonumber(redis.call('HGET', run, 'nq') or '0') then
    count_awaited(T, P, tenant, id, -1)
  end
  if result and redis.call('HSETNX', run .. ':j', slot, result) == 1 then
    count_call(T, id, request.tool, now_ms - request.asked)
    redis.call('RPUSH', events, '{"e":"tool.finished","r":"' .. id .. '","t":' .. now .. ',"iteration":' .. iteration
      .. ',"index":' .. index .. ',"tool":' .. request.tool .. ',"ok":' .. tostring(letter == 'i') .. ',"duration_ms":'
      .. string.format('%.0f', now_ms - request.asked) .. '}')
  end
  local wakeup = wake_owner(T, P, tenant, id, slot, not result)
  redis.call('HSET', run .. ':a', '!' .. slot, letter .. '/' .. request.hash .. '/' .. decision_id .. '/'
    .. (wakeup and wakeup[2] or '') .. '/')
  return wakeup
end

-- A request that nobody decided in time is denied.
local function expire_request(T, P, tenant, id, slot, request)
  return close_request(T, P, tenant, id, slot, request, 'x', 'expired', '', '"expired"',
    request.kind == 'approval' and '"[DENIED] This call was not run: nobody approved it in time (expired)."'
    or '"[DENIED] This call was not answered in time (expired)."')
end

-- The open requests of a run that ends: nobody can decide them any more.
local function withdraw_requests(T, id, root, path)
  local run, events = T .. 'run:' .. id, T .. 'tree:' .. root .. ':ev'
  for _, found in ipairs(open_requests(run)) do
    tell_decision(events, id, found[1], parse_request(found[2]).kind, 'withdrawn', '""')
    redis.call('HDEL', run .. ':a', found[1])
  end
  redis.call('HSET', run, 'na', 0)
  redis.call('HDEL', run, 'nq')
  redis.call('ZREM', T .. 'tree:' .. root .. ':ask', path .. ' ' .. id)
end
