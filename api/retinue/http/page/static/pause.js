// Waiting between attempts, and waking early.

/** Waits; ends at once, without a fault, when the signal is aborted. */
export function pause(ms, signal) {
  return new Promise((done) => {
    if (signal?.aborted) return done();
    const timer = setTimeout(end, ms);
    function end() {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      done();
    }
    signal?.addEventListener("abort", end);
  });
}

/** Growing pauses with jitter, in milliseconds: half a second at first, five at most. */
export class BackOff {
  #attempts = 0;

  next() {
    const ceiling = Math.min(5_000, 500 * 2 ** this.#attempts++);
    return ceiling * (0.7 + 0.3 * Math.random());
  }

  reset() {
    this.#attempts = 0;
  }
}
