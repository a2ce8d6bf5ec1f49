#!lua flags=no-writes
-- One run as a reader sees it.
-- KEYS[1] record
-- ARGV 1 T, 2 P, 3 tenant, 4 id, 5 what: state | status | outcome | result | origin
-- Replies {record, mark or ''}, for a status {.., now} and, for an outcome or a result, {.., result, partial text,
--   request, steers, now}; for an origin {session, depth and creation, request}; {} = no such run. For a state, and
--   the outcome of a run that goes on, the record has no more fields than tell that; for an outcome it has those that
--   a result shows. Waiters read these again and again.
--!include _clock
--!include _marks
--!include _account
local T, run, what = ARGV[1], KEYS[1], ARGV[5]
if what == 'origin' then
  local o = redis.call('HMGET', run, 'sess', 'dp', 'cr')
  return o[1] and { { 'sess', o[1], 'dp', o[2], 'cr', o[3] }, redis.call('GET', run .. ':req') } or {}
end
local f = redis.call('HMGET', run, 'st', 'fi', 'ph', 'ag', 'root', 'path', 'ab', 'im', 'bk', 'doc')
if not f[1] then return {} end
local over = f[2]
local mark = not over and marked(T, f[5], f[6], tonumber(f[7])) or ''
if what == 'state' or (what == 'outcome' and not over) then
  return { { 'st', f[1], 'ph', f[3], 'ag', f[4], 'doc', f[10] or '' }, mark }
end
local record
if what == 'outcome' and f[8] == '0' then
  -- No model answered it: so it has called no tool, whose counts have fields of their own names.
  local g = redis.call('HMGET', run, 'up', 'sa', 'cls', 'cs', 'rt', 'al', 'wms')
  record = { 'st', f[1], 'fi', over, 'up', g[1], 'sa', g[2] or '', 'cls', g[3] or '', 'cs', g[4] or '', 'rt', g[5] or '', 'al', g[6] or '', 'wms', g[7] or '' }
else
  record = redis.call('HGETALL', run)
  local account = f[9] and read_account(T, f[5], f[6]) or {}
  for n = 1, #account, 2 do
    record[#record + 1] = 'b:' .. account[n]
    record[#record + 1] = account[n + 1]
  end
end
if what == 'status' then return { record, mark, now } end
return { record, mark, redis.call('GET', run .. ':res'), redis.call('GET', run .. ':part'),
  redis.call('GET', run .. ':req'), redis.call('HGETALL', run .. ':s'), now }
