-- What a run asks of a human, or of the model of the run that started it. `run:<id>:a` holds each open request under its slot; once it is closed,
-- "!<slot>" says what became of it: <a approved | u approval used | d denied | i answered | x expired>/
-- <argument hash>/<decision id>/<number of the wake-up that it caused>/<operation that used it>.

-- What the scripts read of a request; the rest of its JSON is opaque to them.
local function parse_request(raw)
  local kind, hash, asked, expires, audience, tool, rest = string.match(raw,
    '^{"kind":"(%a+)","argument_hash":"(%x+)","asked_ms":(%d+),"expires_ms":(%d+),"audience":"(%a+)",\n"tool":([^\n]+),\n(.*)}$')
  return { kind = kind, hash = hash, asked = tonumber(asked), expires = tonumber(expires), audience = audience, tool = tool,
    rest = rest }
end

-- The open requests of a run as {slot, JSON}, in the order of their calls.
local function open_requests(run)
  local flat, found = redis.call('HGETALL', run .. ':a'), {}
  for n = 1, #flat, 2 do
    if string.sub(flat[n], 1, 1) ~= '!' then found[#found + 1] = { flat[n], flat[n + 1] } end
  end
  table.sort(found, function(a, b) return tonumber(string.match(a[1], '%d+$')) < tonumber(string.match(b[1], '%d+$')) end)
  return found
end
