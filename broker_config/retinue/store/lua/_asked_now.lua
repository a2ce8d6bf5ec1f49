-- What runs of a tree ask now, as {id, agent, slot, JSON}. `members` are entries of the tree's
-- index of asking runs. Left out is what nobody can decide: of a cancelled run, or out of time, which the
-- sweep and the timer are about to close. `audience`: only what is asked of it, nil = all. Needs _clock,
-- _marks and _asked.
local function asked_now(T, root, members, audience)
  local asked = {}
  for _, entry in ipairs(members) do
    local path, id = string.match(entry, '^(%S+) (%S+)$')
    local run = T .. 'run:' .. id
    local f = redis.call('HMGET', run, 'ag', 'ab')
    local is_open = f[1] and not marked(T, root, path, tonumber(f[2]))
    for _, found in ipairs(is_open and open_requests(run) or {}) do
      local request = parse_request(found[2])
      if request.expires > now_ms and (not audience or request.audience == audience) then
        asked[#asked + 1] = { id, f[1], found[1], found[2] }
      end
    end
  end
  return asked
end
