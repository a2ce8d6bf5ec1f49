-- Accounts of budgets. `tree:<root>:b` holds one for each run that has a budget, its fields led by the run's path: caps
-- ci (input tokens), co (output), ct (both), cu (micro-USD), cc (tool calls), cw (ms since its launch), each absent where
-- there is none; ui uo uu uc used by the run and all below it; hi ho hu held by their open reservations; m what becomes
-- of a run once it is spent (p paused | s stopped), cr when it began, id the run, w the caps whose warning was told.
-- They stand by the tree and not on the record, for a run's budget outlives it where abandoned runs go on below it.
-- `bk` on a record names the depths at and above it that have a budget; without it nothing here is asked.

local function account_fields()
  return { 'ci', 'co', 'ct', 'cu', 'cc', 'cw', 'ui', 'uo', 'uu', 'uc', 'hi', 'ho', 'hu', 'm', 'cr', 'id', 'w' }
end

-- The account at a path as {field, value, ...}; empty where the run has no budget of its own.
local function read_account(T, root, path)
  local fields, names, found = account_fields(), {}, {}
  for n, field in ipairs(fields) do names[n] = path .. field end
  for n, value in ipairs(redis.call('HMGET', T .. 'tree:' .. root .. ':b', unpack(names))) do
    if value then
      found[#found + 1] = fields[n]
      found[#found + 1] = value
    end
  end
  return found
end
