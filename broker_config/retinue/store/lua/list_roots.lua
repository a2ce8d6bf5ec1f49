#!lua flags=no-writes
-- A part of a session's list, newest first, without the runs that have expired.
-- KEYS[1] the session's list
-- ARGV 1 T, 2 place to read from (0 = the newest), 3 most entries to look at
-- Replies {place to go on from ('' = there is no more), id...}
local from, most = tonumber(ARGV[2]), tonumber(ARGV[3])
local entries = redis.call('ZRANGE', KEYS[1], from, from + most - 1, 'REV')
local reply = { #entries == most and string.format('%.0f', from + most) or '' }
for _, id in ipairs(entries) do
  if redis.call('EXISTS', ARGV[1] .. 'run:' .. id) == 1 then reply[#reply + 1] = id end
end
return reply
