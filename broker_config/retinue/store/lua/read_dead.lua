#!lua flags=no-writes
-- Dead letters of one partition, newest first; or one of them, with its request.
-- KEYS[1] the tenant's dead letters there
-- ARGV 1 T, 2 session or '' (any), 3 most letters, 4 the run whose letter alone is read or ''
-- Replies {{id, hash}...}; the request stands in the hash of a letter that is read alone
local T, session, most, one = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local reply = {}
for _, id in ipairs(one ~= '' and { one } or redis.call('ZRANGE', KEYS[1], 0, -1, 'REV')) do
  if #reply >= most then break end
  local f = redis.call('HMGET', T .. 'dead:' .. id, 'ag', 'sess', 'root', 'par', 'cr', 'ls', 'im', 'fi', 'cls')
  if f[1] and (session == '' or session == f[2]) then
    local letter = { 'ag', f[1], 'sess', f[2], 'root', f[3], 'par', f[4], 'cr', f[5], 'ls', f[6], 'im', f[7], 'fi', f[8], 'cls', f[9] }
    if one ~= '' then
      letter[#letter + 1] = 'req'
      letter[#letter + 1] = redis.call('HGET', T .. 'dead:' .. id, 'req')
    end
    reply[#reply + 1] = { id, letter }
  end
end
return reply
