#!lua flags=no-writes
-- The endpoints of a tenant, oldest first, or one of them; never what signs.
-- KEYS[1] the tenant's endpoints
-- ARGV 1 W, 2 tenant, 3 id of the one or ''
-- Replies {{id, URL, description, created, on|off, why it is off, until when the former secret signs too}...}; what
--   is not known is ''
local reply = {}
for _, id in ipairs(ARGV[3] ~= '' and { ARGV[3] } or redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local key = ARGV[1] .. 'at:' .. ARGV[2] .. ':' .. id
  if redis.call('EXISTS', key) == 1 then
    local row = { id }
    for _, value in ipairs(redis.call('HMGET', key, 'ul', 'ds', 'cr', 'st', 'why', 'till')) do row[#row + 1] = value or '' end
    reply[#reply + 1] = row
  end
end
return reply
