-- Counts a tool call, on the run's record and in the sums of those above it: how many, and how long, by tool. Names
-- are the model's: one of more than 64 bytes would turn the whole record from a list into a table of four
-- times its size, so a longer one is cut, before a character that the cut would split; and so would too many
-- fields, so once there are many, new names are counted as one. Needs _usage.
local MOST_FIELDS = 400

local function tally(run, lead, name, ms)
  if redis.call('HLEN', run) > MOST_FIELDS and redis.call('HEXISTS', run, lead .. 't:' .. name) == 0 then
    name = '...'
  end
  redis.call('HINCRBY', run, lead .. 'tc', 1)
  redis.call('HINCRBY', run, lead .. 't:' .. name, 1)
  if ms ~= '0' then redis.call('HINCRBY', run, lead .. 'd:' .. name, ms) end
end

local function count_call(T, id, tool, ms)
  local name = cjson.decode(tool)
  local stop = math.min(#name, 61)
  while string.find(name, '^[\128-\191]', stop + 1) do stop = stop - 1 end
  name = string.sub(name, 1, stop)
  ms = string.format('%.0f', math.max(0, tonumber(ms)))
  local run = T .. 'run:' .. id
  tally(run, '', name, ms)
  local f = redis.call('HMGET', run, 'root', 'path', 'par')
  if f[3] == '' then return end
  for _, above in ipairs(records_above(T, f[1], f[2], f[3])) do tally(above, lead_of(above), name, ms) end
end
