#!lua flags=no-writes
-- One run as a reader sees it.
-- KEYS[1] record
-- ARGV 1 T, 2 P, 3 tenant, 4 id, 5 what: status | result
-- Replies {record, mark or ''} and, for a result, {.., result, partial text, request, steers}; {} = no such run
--!include _marks
local T, run = ARGV[1], KEYS[1]
local record = redis.call('HGETALL', run)
if #record == 0 then return {} end
local f = redis.call('HMGET', run, 'root', 'path', 'ab', 'fi')
local mark = not f[4] and marked(T, f[1], f[2], tonumber(f[3])) or ''
if ARGV[5] == 'status' then return { record, mark } end
return { record, mark, redis.call('GET', run .. ':res'), redis.call('GET', run .. ':part'),
  redis.call('GET', run .. ':req'), redis.call('HGETALL', run .. ':s') }
