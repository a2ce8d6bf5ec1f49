-- Whether a request may be decided now. Returns it, or nil and what to answer instead: a repeat gets the
-- first reply; one that is out of time is denied on the spot. Needs _clock, _deadline, _marks,
-- _count, _queue, _asked, _questions and _requests.
-- `above`: the run by whose handle it is decided, the asking one or an ancestor.
local function decidable(T, P, tenant, id, above, slot, decision_id)
  local run = T .. 'run:' .. id
  local f = redis.call('HMGET', run, 'root', 'path', 'ab', 'fi')
  local a = redis.call('HMGET', T .. 'run:' .. above, 'root', 'path')
  if not f[1] or f[1] ~= a[1] or string.sub(f[2], 1, #a[2]) ~= a[2] then return nil, { 'UNKNOWN' } end
  local found = redis.call('HMGET', run .. ':a', slot, '!' .. slot)
  local letter, decided_by, number = string.match(found[2] or '', '^(%a)/%x*/([^/]*)/(%d*)/')
  if letter and decided_by == decision_id then
    return nil, { 'ACCEPTED', number ~= '' and wake_up(T, id, number) or nil }
  end
  if f[4] then return nil, { 'ENDED' } end
  if marked(T, f[1], f[2], tonumber(f[3])) then return nil, { 'CANCELLED' } end
  if letter then return nil, { letter == 'x' and 'EXPIRED' or 'DECIDED' } end
  if not found[1] then return nil, { 'UNKNOWN' } end
  local request = parse_request(found[1])
  if now_ms >= request.expires then return nil, { 'EXPIRED', expire_request(T, P, tenant, id, slot, request) } end
  return request
end
