// The runs that are live now, asked for again and again, and those that ended a moment ago.

import { v1 } from "./api.js";
import { noteServerTime, now } from "./clock.js";
import { BackOff, pause } from "./pause.js";

const INTERVAL_MS = 1_000;
const INTERVAL_MAX_MS = 10_000;
const HIDDEN_INTERVAL_MS = 15_000;
// A slow answer means a busy service: then it is asked for a quarter of the time at most.
const REST_FACTOR = 3;
const ENDED_KEPT_S = 60;
const ENDED_READS_MAX = 20;

export const TERMINAL = new Set(["SUCCEEDED", "FAILED", "INTERRUPTED", "CANCELLED"]);

export class LiveRuns {
  #api;
  #nudge = new AbortController();
  #live = new Map();
  #ended = new Map();
  #ofSession = new Map();

  /**
   * @param {import("./api.js").Api} api
   * @param {import("./connection.js").Connection} connection is told of answers and failures
   */
  constructor(api, connection) {
    this.#api = api;
    this.connection = connection;
    this.leftOut = 0;
    this.isLoaded = false;
    this.onChange = () => {};
  }

  /** All that is to be shown: those that ended a moment ago carry `ended_at`; others stand above live ones. */
  get runs() {
    return [...new Map([...this.#ofSession, ...this.#ended, ...this.#live]).values()];
  }

  find(runId) {
    return this.#live.get(runId) ?? this.#ended.get(runId) ?? this.#ofSession.get(runId) ?? null;
  }

  /** Asks until the signal is aborted. */
  async keepUp(signal) {
    const backOff = new BackOff();
    const wake = () => document.hidden || this.soon();
    document.addEventListener("visibilitychange", wake);
    signal.addEventListener("abort", () => this.soon());
    while (!signal.aborted) {
      let wait_ms;
      try {
        const took_ms = await this.#read();
        backOff.reset();
        this.connection.answered();
        const rest = Math.min(INTERVAL_MAX_MS, Math.max(INTERVAL_MS, REST_FACTOR * took_ms));
        wait_ms = document.hidden ? HIDDEN_INTERVAL_MS : rest;
      } catch (fault) {
        if (fault.status === 401) break;
        this.connection.failed(fault);
        wait_ms = fault.retryAfterS ? fault.retryAfterS * 1000 : backOff.next();
      }
      await pause(wait_ms, this.#nudge.signal);
      this.#nudge = new AbortController();
    }
    document.removeEventListener("visibilitychange", wake);
  }

  /** Asks at once, rather than when the pause is over. */
  soon() {
    this.#nudge.abort();
  }

  /** Shows the root runs of a session that have ended as well; null = no more. */
  async showEndedOf(session) {
    this.#ofSession = new Map();
    if (session) {
      const { runs } = await this.#api.get(`/v1/runs?limit=100&session=${encodeURIComponent(session)}`);
      for (const status of runs) {
        if (TERMINAL.has(status.state) && status.handle) {
          this.#ofSession.set(status.handle.subagent_id, endedRun(rowOf(status), status));
        }
      }
    }
    this.onChange();
  }

  async #read() {
    const begun = performance.now();
    const answer = await this.#api.fetch("/v1/live", { signal: AbortSignal.timeout(20_000) });
    noteServerTime(answer.headers.get("Date"));
    const { runs, left_out } = await answer.json();
    const took_ms = performance.now() - begun;
    const before = this.#live;
    this.#live = new Map(runs.map((run) => [run.run_id, run]));
    this.leftOut = left_out;
    this.isLoaded = true;
    this.#forgetOld();
    const gone = [...before.values()].filter((run) => !this.#live.has(run.run_id) && !TERMINAL.has(run.state));
    // Of a crowd that ends at once only the first are looked up: it is a view, not a record.
    for (const run of gone.slice(0, ENDED_READS_MAX)) this.#lookUp(run);
    this.onChange();
    return took_ms;
  }

  #forgetOld() {
    const oldest = now() - ENDED_KEPT_S;
    for (const [id, run] of this.#ended) {
      if (run.ended_at < oldest || this.#live.has(id)) this.#ended.delete(id);
    }
  }

  async #lookUp(run) {
    this.#ended.set(run.run_id, { ...run, phase: "", pending: 0, ended_at: now() });
    try {
      const status = await this.#api.get(v1("runs", run.run_id));
      if (TERMINAL.has(status.state)) this.#ended.set(run.run_id, endedRun(run, status));
      else this.#ended.delete(run.run_id);
    } catch {
      this.#ended.delete(run.run_id);
    }
    this.onChange();
  }
}

function endedRun(run, status) {
  return {
    ...run,
    state: status.state,
    phase: "",
    pending: 0,
    worker: null,
    iteration: status.iteration,
    input_tokens: status.usage?.input_tokens ?? run.input_tokens,
    output_tokens: status.usage?.output_tokens ?? run.output_tokens,
    usd: status.usage?.cost_usd ?? run.usd,
    ended_at: status.updated_at ?? now(),
  };
}

function rowOf(status) {
  const { handle } = status;
  return {
    run_id: handle.subagent_id,
    parent_id: null,
    root_id: handle.subagent_id,
    session_id: handle.parent_session_id,
    agent: status.agent,
    depth: handle.depth,
    created_at: handle.created_at,
    queue: null,
  };
}
