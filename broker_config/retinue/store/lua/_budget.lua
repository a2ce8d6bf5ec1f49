-- What runs hold and use of budgets. A run's own reservation is rin, rout, rus on its record; nin, nout, nus is what one
-- that waits for budget would reserve. Needs _clock, _usage, _queue and _account.

-- All that a script does with the budgets of one tree. It is made only for a run that stands under one: a script pays
-- for each function that it defines, and most runs have no budget.
local function budgets_of(T, P, tenant, root)
  local KINDS = { 'i', 'o', 'u' }
  -- Of what is reserved and used: public name, the cap's field, and which kinds count.
  local RESERVED = {
    { 'input_tokens', 'ci', 'i' }, { 'output_tokens', 'co', 'o' }, { 'tokens', 'ct', 'io' }, { 'usd', 'cu', 'u' },
  }
  local COUNTERS = { 'ui', 'uo', 'uu', 'uc', 'hi', 'ho', 'hu' }
  local WOKEN_AT_ONCE, LOOK_AGAIN_MS = 50, 30000

  local budgets, known, tree = {}, {}, T .. 'tree:' .. root

  local function integer(value) return string.format('%.0f', value) end

  -- The accounts at the depths that `bk` names, root first; each is read once.
  function budgets.accounts_of(path, bk)
    local prefixes, accounts = {}, {}
    for stop in string.gmatch(path, '()/') do prefixes[#prefixes + 1] = string.sub(path, 1, stop) end
    for depth in string.gmatch(bk, '%d+') do
      local at = prefixes[tonumber(depth) + 1]
      if not known[at] then
        local account, fields = { at = at }, read_account(T, root, at)
        for _, field in ipairs(COUNTERS) do account[field] = 0 end
        for n = 1, #fields, 2 do account[fields[n]] = tonumber(fields[n + 1]) or fields[n + 1] end
        known[at] = account
      end
      accounts[#accounts + 1] = known[at]
    end
    return accounts
  end

  local function add(account, name, by)
    account[name] = account[name] + by
    if by ~= 0 then redis.call('HINCRBY', tree .. ':b', account.at .. name, integer(by)) end
  end

  local function total(of, prefix, kinds)
    local sum = 0
    for kind in string.gmatch(kinds, '.') do sum = sum + of[prefix .. kind] end
    return sum
  end

  -- How an amount is told: money in USD, time in seconds, the rest as it is counted.
  function budgets.shown(name, amount)
    if name == 'usd' then return string.format('%.6f', amount / 1000000) end
    if name == 'wall_seconds' then return string.format('%.3f', amount / 1000) end
    return integer(amount)
  end

  local function tell(event, id, name, used, limit)
    redis.call('RPUSH', tree .. ':ev', '{"e":"budget.' .. event .. '","r":"' .. id .. '","t":' .. now .. ',"name":"' .. name
      .. '","used":' .. budgets.shown(name, used) .. ',"limit":' .. budgets.shown(name, limit) .. '}')
  end

  -- The open reservation of a run, or nil.
  function budgets.reservation_of(run)
    local f = redis.call('HMGET', run, 'rin', 'rout', 'rus')
    return f[1] and { i = tonumber(f[1]), o = tonumber(f[2]), u = tonumber(f[3]) } or nil
  end

  -- Puts `need` in the place of a run's reservation, either of which may be nil.
  function budgets.reserve(run, accounts, own, need)
    for _, account in ipairs(accounts) do
      for _, kind in ipairs(KINDS) do
        add(account, 'h' .. kind, (need and need[kind] or 0) - (own and own[kind] or 0))
      end
    end
    if need then
      redis.call('HSET', run, 'rin', integer(need.i), 'rout', integer(need.o), 'rus', integer(need.u))
    elseif own then
      redis.call('HDEL', run, 'rin', 'rout', 'rus')
    end
  end

  -- Why a request does not fit, or nil: {spent, stops, name, used, limit}. It is spent where it would not fit even if
  -- nothing were held; else it is short by what others hold.
  function budgets.shortage(accounts, need, own)
    local short
    local function note(account, is_spent, name, used, limit)
      local stops = is_spent and account.m == 's'
      -- What ends the run comes first, then what only a raise can mend.
      if not short or (stops and not short.stops) or (is_spent and not short.spent) then
        short = { spent = is_spent, stops = stops, name = name, used = used, limit = limit }
      end
    end
    for _, account in ipairs(accounts) do
      for _, cap in ipairs(RESERVED) do
        local name, limit, kinds = cap[1], account[cap[2]], cap[3]
        if limit then
          local used, wanted, held = total(account, 'u', kinds), total(need, '', kinds), total(account, 'h', kinds)
          if own then held = held - total(own, '', kinds) end
          if used + wanted > limit then
            note(account, true, name, used, limit)
          elseif used + held + wanted > limit then
            note(account, false, name, used, limit)
          end
        end
      end
      local wall = account.cw and now_ms - account.cr
      if wall and wall >= account.cw then note(account, true, 'wall_seconds', wall, account.cw) end
    end
    return short
  end

  -- Counts a response: what it took, or what was reserved for it where that is not known, and as many of its calls
  -- as all budgets allow. Returns their number, or nil where no budget has to do with calls.
  function budgets.charge(accounts, own, input, output, cost, calls)
    local is_unsaid, is_capped = input + output == 0, false
    for _, account in ipairs(accounts) do
      if account.cc then calls, is_capped = math.min(calls, math.max(0, account.cc - account.uc)), true end
    end
    for _, account in ipairs(accounts) do
      add(account, 'ui', is_unsaid and own.i or input)
      add(account, 'uo', is_unsaid and own.o or output)
      add(account, 'uu', cost or own.u)
      add(account, 'uc', calls)
    end
    return is_capped and calls or nil
  end

  -- Tells once of each cap that four fifths of it are used.
  function budgets.warn(accounts)
    for _, account in ipairs(accounts) do
      local told = account.w or ''
      local function look(name, field, used)
        local limit = account[field]
        if limit and used * 5 >= limit * 4 and not string.find(told, field, 1, true) then
          told = told .. field
          tell('warning', account.id, name, used, limit)
        end
      end
      for _, cap in ipairs(RESERVED) do look(cap[1], cap[2], total(account, 'u', cap[3])) end
      look('tool_calls', 'cc', account.uc)
      look('wall_seconds', 'cw', now_ms - account.cr)
      if told ~= (account.w or '') then
        account.w = told
        redis.call('HSET', tree .. ':b', account.at .. 'w', told)
      end
    end
  end

  -- Lets the timer look at a run that waits for others' reservations: one that was woken for what is free now may
  -- find no worker, and then nobody clears anything. Returns when, in ms.
  function budgets.look_again(id)
    redis.call('ZADD', P .. 'due', 'LT', integer(now_ms + LOOK_AGAIN_MS), tenant .. '/' .. id)
    return now_ms + LOOK_AGAIN_MS
  end

  -- A run that has left its worker for want of budget: waits for others' reservations (`bw`, first come first), or for
  -- a raise (`bs`), of which whoever waits for it or a run above it is told.
  function budgets.wait(path, id, short)
    local entry = path .. ' ' .. id
    redis.call('ZREM', tree .. (short.spent and ':bw' or ':bs'), entry)
    redis.call('ZADD', tree .. (short.spent and ':bs' or ':bw'), short.spent and 0 or now, entry)
    if not short.spent then
      budgets.look_again(id)
      return
    end
    tell('paused', id, short.name, short.used, short.limit)
    local above = id
    while above and above ~= '' do
      redis.call('PUBLISH', P .. 'wake', above .. ' ASKED')
      above = redis.call('HGET', T .. 'run:' .. above, 'par')
    end
  end

  -- Looks again at the runs of a tree that wait for others' reservations: wakes those that fit now, together, and
  -- those that are to be stopped. Returns their wake-ups. It may leave off once so many are still short: then
  -- something is held, and who frees it looks again.
  function budgets.wake()
    local woken, kept = {}, 0
    while #woken < WOKEN_AT_ONCE and kept < WOKEN_AT_ONCE do
      local page = redis.call('ZRANGE', tree .. ':bw', kept, kept + WOKEN_AT_ONCE - 1)
      for _, entry in ipairs(page) do
        local path, id = string.match(entry, '^(%S+) (%S+)$')
        local f = redis.call('HMGET', T .. 'run:' .. id, 'bk', 'nin', 'nout', 'nus')
        local need = { i = tonumber(f[2]), o = tonumber(f[3]), u = tonumber(f[4]) }
        local accounts = budgets.accounts_of(path, f[1])
        local short = budgets.shortage(accounts, need)
        if short and short.spent and not short.stops then
          budgets.wait(path, id, short)
        elseif short and not short.spent then
          kept = kept + 1
        else
          redis.call('ZREM', tree .. ':bw', entry)
          redis.call('HDEL', T .. 'run:' .. id, 'nin', 'nout', 'nus')
          -- Not reserved yet, but what is woken after it has to fit beside it.
          for _, account in ipairs(short and {} or accounts) do
            for _, kind in ipairs(KINDS) do account['h' .. kind] = account['h' .. kind] + need[kind] end
          end
          woken[#woken + 1] = queue_run(T, P, tenant, id, now)
          if #woken == WOKEN_AT_ONCE then return woken end
        end
      end
      if #page < WOKEN_AT_ONCE then return woken end
    end
    return woken
  end

  return budgets
end

-- A run leaves its worker, or ends: its reservation is freed, and it waits for no budget. Returns the wake-ups of
-- the runs that go on by that.
local function settle_budget(T, P, tenant, id)
  local run = T .. 'run:' .. id
  local f = redis.call('HMGET', run, 'bk', 'root', 'path')
  if not f[1] then return {} end
  local budgets, tree, entry = budgets_of(T, P, tenant, f[2]), T .. 'tree:' .. f[2], f[3] .. ' ' .. id
  budgets.reserve(run, budgets.accounts_of(f[3], f[1]), budgets.reservation_of(run), nil)
  if redis.call('ZREM', tree .. ':bw', entry) + redis.call('ZREM', tree .. ':bs', entry) > 0 then
    redis.call('HDEL', run, 'nin', 'nout', 'nus')
  end
  return budgets.wake()
end
