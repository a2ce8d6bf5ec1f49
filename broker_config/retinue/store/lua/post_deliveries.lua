#!lua
-- Queues what webhooks are told of an ended run: for each endpoint of its tenant that is on, if it is a root, and for
-- its own. A delivery is named after run and endpoint, so that a repeat changes nothing.
-- KEYS[1] the tenant's endpoints
-- ARGV 1 W, 2 tenant, 3 run, 4 session, 5 agent, 6 parent or '' (it is a root), 7 state, 8 error class or '', 9 when
--   it ended, ms, 10 URL of its own webhook or '', 11 the lane of that, 12 secret that signs runs' own from the first
--   on, 13 most pending deliveries of an endpoint, more than which fail at once, 14 most others that it keeps
-- Replies {OK, deliveries that are new}
--!include _clock
--!include _lane
local W, tenant, run = ARGV[1], ARGV[2], ARGV[3]
local most_pending, most_kept = tonumber(ARGV[13]), tonumber(ARGV[14])

local function post(endpoint, lane, url)
  local id = 'msg_' .. redis.sha1hex(run .. ' ' .. endpoint)
  local key, log = W .. 'msg:' .. tenant .. ':' .. id, W .. 'log:' .. tenant .. ':' .. endpoint
  if redis.call('EXISTS', key) == 1 then return 0 end
  redis.call('HSET', key, 'ep', endpoint, 'ln', lane, 'run', run, 'sess', ARGV[4], 'ag', ARGV[5], 'par', ARGV[6],
    'rs', ARGV[7], 'cls', ARGV[8], 'fi', ARGV[9], 'st', 'p', 'n', 0, 'qd', now, 'nx', now)
  if url ~= '' then redis.call('HSET', key, 'ul', url) end
  redis.call('EXPIRE', key, DELIVERY_KEPT_S)
  local pending = redis.call('ZCARD', log) - redis.call('ZCARD', W .. 'over:' .. tenant .. ':' .. endpoint)
  redis.call('ZADD', log, now, id)
  redis.call('EXPIRE', log, DELIVERY_KEPT_S)
  if pending < most_pending then
    queue_delivery(W, tenant, lane, id, now)
  else
    redis.call('HSET', key, 'st', 'f', 'err', 'backlog_full')
    keep_ended(W, tenant, endpoint, id, most_kept)
  end
  return 1
end

local new = 0
if ARGV[6] == '' then
  for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
    if redis.call('HGET', W .. 'at:' .. tenant .. ':' .. id, 'st') == 'on' then new = new + post(id, id, '') end
  end
end
if ARGV[10] ~= '' then
  redis.call('HSETNX', W .. 'at:' .. tenant .. ':per-run', 'sec', ARGV[12])
  new = new + post('per-run', ARGV[11], ARGV[10])
end
return { 'OK', new }
