-- How a run ends that no worker holds and that a mark ('c', 'i') or its deadline ('d') stops: state, class, and
-- what its parent's model reads.
local STOPS = {
  c = { 'CANCELLED', '', '[CANCELLED] This agent was cancelled before it finished.' },
  i = { 'INTERRUPTED', 'INTERRUPT_REQUESTED', '[INTERRUPT_REQUESTED] This agent was interrupted before it finished.' },
  d = { 'INTERRUPTED', 'DEADLINE_EXCEEDED', '[DEADLINE_EXCEEDED] This agent ran out of time before it finished.' },
}
local LAST_TEXT_MAX = 32000

-- Ends it, and tells how far it came: a text that is too long stands in its result only. Returns the state, and
-- what end_run does. Needs _end and all that it needs.
local function stop_run(T, P, tenant, id, now, why)
  local state, class, reply = unpack(STOPS[why])
  local text = redis.call('GET', T .. 'run:' .. id .. ':part')
  if text and #text <= LAST_TEXT_MAX then reply = reply .. '\\nIts last text was:\\n' .. string.sub(text, 2, -2) end
  return state, end_run(T, P, tenant, id, now, state, class, '"' .. reply .. '"')
end
