#!lua
-- Answers a call that the caller is asked for: its result goes into the journal. The answer's id is its
-- identity.
-- KEYS[1] record of the asking run
-- ARGV 1 T, 2 P, 3 tenant, 4 id, 5 id of the run by whose handle it is answered, 6 slot, 7 answer's id, 8 result as
--   a JSON string, 9 '' or parent: it is the model of the run above, which answers what is asked of it alone
-- Replies {ACCEPTED, owner's wake-up or nothing}; {UNKNOWN}; {ENDED}; {CANCELLED}; {DECIDED}; {EXPIRED, owner's
--   wake-up or nothing}; {KIND} (a call that waits for an approval is not answered, nor by a model what a
--   human is asked)
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
if request.kind ~= 'input' or (ARGV[9] == 'parent' and request.audience ~= 'parent') then return { 'KIND' } end
return { 'ACCEPTED', close_request(T, P, tenant, id, slot, request, 'i', 'answered', decision_id, '""', ARGV[8]) }
