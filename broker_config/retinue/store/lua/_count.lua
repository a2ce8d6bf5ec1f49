-- Counts a tool call on the run's record. Names are the model's: one of more than 64 bytes would turn
-- the whole record from a list into a table of four times its size, so a longer one is cut, before a
-- character that the cut would split.
local function count_call(run, tool)
  local name = cjson.decode(tool)
  local stop = math.min(#name, 62)
  while string.find(name, '^[\128-\191]', stop + 1) do stop = stop - 1 end
  name = string.sub(name, 1, stop)
  redis.call('HINCRBY', run, 't:' .. name, 1)
end
