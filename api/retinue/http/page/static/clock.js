// The server's time, since ages are counted from its clock and not from this machine's.

let offsetS = 0;

/** Learns from an answer's Date header; differences below its precision are none. */
export function noteServerTime(dateHeader) {
  const told = Date.parse(dateHeader ?? "") / 1000;
  if (!Number.isFinite(told)) return;
  const difference = told - Date.now() / 1000;
  offsetS = Math.abs(difference) > 3 ? difference : 0;
}

/** Epoch seconds. */
export function now() {
  return Date.now() / 1000 + offsetS;
}
