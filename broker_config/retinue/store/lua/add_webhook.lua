#!lua
-- Registers an endpoint of a tenant.
-- KEYS[1] the tenant's endpoints
-- ARGV 1 W, 2 tenant, 3 id, a repeat under which changes nothing, 4 URL, 5 description, 6 signing secret, 7 most
--   endpoints of a tenant
-- Replies {OK, created}; {FULL}
--!include _clock
local W, tenant, id = ARGV[1], ARGV[2], ARGV[3]
local created = redis.call('ZSCORE', KEYS[1], id)
if created then return { 'OK', created } end
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[7]) then return { 'FULL' } end
redis.call('HSET', W .. 'at:' .. tenant .. ':' .. id, 'ul', ARGV[4], 'ds', ARGV[5], 'sec', ARGV[6], 'st', 'on', 'cr', now)
redis.call('ZADD', KEYS[1], now, id)
redis.call('SADD', W .. 'tenants', tenant)
return { 'OK', now }
