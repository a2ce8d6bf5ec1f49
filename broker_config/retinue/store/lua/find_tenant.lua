#!lua flags=no-writes
-- Whose a run is, of which only the id is known: a part of the partition's tenants a call, the latest first.
-- KEYS[1] the partition's tenants
-- ARGV 1 run id, 2 partition's hash tag, 3 place to read from, 4 most tenants to look at
-- Replies {FOUND, tenant}; {MORE, place to go on from}; {NONE}
local from, most = tonumber(ARGV[3]), tonumber(ARGV[4])
local tenants = redis.call('ZRANGE', KEYS[1], from, from + most - 1, 'REV')
for _, tenant in ipairs(tenants) do
  if redis.call('EXISTS', 'retinue:' .. tenant .. ':' .. ARGV[2] .. ':run:' .. ARGV[1]) == 1 then
    return { 'FOUND', tenant }
  end
end
if #tenants == most then return { 'MORE', string.format('%.0f', from + most) } end
return { 'NONE' }
