#!lua flags=no-writes
-- Whether a thread is still kept, and who owns it.
-- KEYS[1] record of a run of the same session; it may be gone
-- ARGV 1 T, 2 P, 3 tenant, 4 id, 5 thread
-- Replies {owner, or '' where it was never handed off}; {} = no such thread
local thread = ARGV[1] .. 'th:' .. ARGV[5]
if redis.call('EXISTS', thread) == 0 then return {} end
return { redis.call('GET', thread .. ':ow') or '' }
