#!lua
-- Approves or denies a request. An approved call is run by the owner, which is woken for it; the
-- denied one's result goes into the journal. The decision's id is its identity.
-- KEYS[1] record of the asking run
-- ARGV 1 T, 2 P, 3 tenant, 4 id, 5 id of the run by whose handle it is decided, 6 slot, 7 decision id, 8 approve|deny,
--   9 reason as a JSON string, 10 result of a denied call as a JSON string
-- Replies {ACCEPTED, owner's wake-up or nothing}; {UNKNOWN}; {ENDED}; {CANCELLED}; {DECIDED}; {EXPIRED, owner's
--   wake-up or nothing}; {KIND} (only a call that waits for an approval can be approved)
--!include _clock
--!include _deadline
--!include _marks
--!include _usage
--!include _count
--!include _queue
--!include _asked
--!include _questions
--!include _requests
--!include _decision
local T, P, tenant, id, slot, decision_id = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[6], ARGV[7]
local request, instead = decidable(T, P, tenant, id, ARGV[5], slot, decision_id)
if not request then return instead end
if ARGV[8] == 'deny' then
  return { 'ACCEPTED', close_request(T, P, tenant, id, slot, request, 'd', 'denied', decision_id, ARGV[9], ARGV[10]) }
end
if request.kind ~= 'approval' then return { 'KIND' } end
return { 'ACCEPTED', close_request(T, P, tenant, id, slot, request, 'a', 'approved', decision_id, ARGV[9], nil) }
