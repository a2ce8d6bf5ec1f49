#!lua flags=allow-oom
-- Uses up the approval of a call, just before it is run: whoever finds it used does not know how far
-- the call came.
-- KEYS[1] record
-- ARGV 1 T, 2 P, 3 tenant, 4 id, 5 epoch, 6 token, 7 operation, 8 slot, 9 argument hash
-- Replies {BEGUN}; {USED} (by an earlier attempt); {NOT_APPROVED}; {STALE}; {CANCEL}; {INTERRUPT}; {DEADLINE}
--!include _clock
--!include _deadline
--!include _marks
local T, run, slot = ARGV[1], KEYS[1], ARGV[8]
local f = redis.call('HMGET', run, 'ep', 'tok', 'root', 'path', 'ab', 'dl', 'hw')
if not f[1] or f[1] ~= ARGV[5] or f[2] ~= ARGV[6] then return { 'STALE' } end
local decided = redis.call('HGET', run .. ':a', '!' .. slot)
local letter, hash, rest, used_by = string.match(decided or '', '^(%a)/(%x*)/([^/]*/%d*)/(.*)$')
if letter == 'u' and used_by == ARGV[7] then return { 'BEGUN' } end
if (letter ~= 'a' and letter ~= 'u') or hash ~= ARGV[9] then return { 'NOT_APPROVED' } end
local mark = marked(T, f[3], f[4], tonumber(f[5]))
if mark then return { mark == 'c' and 'CANCEL' or 'INTERRUPT' } end
if out_of_time(f[6], f[7]) then return { 'DEADLINE' } end
if letter == 'u' then return { 'USED' } end

redis.call('HSET', run .. ':a', '!' .. slot, 'u/' .. hash .. '/' .. rest .. '/' .. ARGV[7])
redis.call('HSET', run, 'up', now)
return { 'BEGUN' }
