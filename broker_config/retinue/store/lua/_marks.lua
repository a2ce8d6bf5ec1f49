-- What stands above a run, in one read of all prefixes of its path: 'c' (it is cancelled, by a
-- cancel mark or by the end of an ancestor that it follows), 'i' (it alone is interrupted) or nil.
-- `above` is the depth from which the end of an ancestor counts: an abandoned child sets it to its own.
-- An interrupt abandons all children of its run: of what is above them, only a cancel counts.
local function marked(T, root, path, above)
  local prefixes, follows, soft = {}, nil, nil
  for stop in string.gmatch(path, '()/') do prefixes[#prefixes + 1] = string.sub(path, 1, stop) end
  local marks = redis.call('HMGET', T .. 'tree:' .. root .. ':m', unpack(prefixes))
  for n = 1, #prefixes do
    local kind = marks[n] and string.sub(marks[n], 1, 1)
    if kind == 'c' then return 'c' end
    if kind == 'e' and n < #prefixes and n > above then follows = 'c' end
    if kind == 'i' and n < #prefixes then follows = nil end
    if kind == 'i' and n == #prefixes then soft = 'i' end
  end
  return follows or soft
end
