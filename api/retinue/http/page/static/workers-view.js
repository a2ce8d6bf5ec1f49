// The worker processes and queues, and the request to drain one.

import { now } from "./clock.js";
import { v1 } from "./api.js";
import { ask } from "./dialog.js";
import { doing, Outcome } from "./doing.js";
import { el, keyed, setAttribute, setText } from "./dom.js";
import { count, NOTHING, span } from "./format.js";
import { allOf } from "./pages.js";
import { pause } from "./pause.js";

const INTERVAL_MS = 3_000;
const WORKER_COLUMNS = ["Worker", "Host", "Runs", "Up", "Queues", "Agents", "State", ""];

export class WorkersView {
  #ends = new AbortController();
  #outcome = new Outcome();
  #trouble = new Outcome();
  #workers = el("tbody");
  #queues = el("tbody");
  #none = el("p", { class: "quiet", text: "No worker is there. Start one: retinue worker", hidden: true });
  element = el("div", { class: "page" },
    el("h1", { text: "Workers" }), this.#trouble.element, this.#outcome.element, this.#none,
    table("Workers", WORKER_COLUMNS, this.#workers),
    el("h2", { text: "Queues" }), table("Queues", ["Queue", "Waiting runs", "Workers"], this.#queues));

  constructor(context) {
    this.context = context;
    this.#keepUp();
  }

  close() {
    this.#ends.abort();
  }

  async #keepUp() {
    const { signal } = this.#ends;
    while (!signal.aborted) {
      await this.#read();
      await pause(INTERVAL_MS, signal);
    }
  }

  async #read() {
    try {
      const { api } = this.context;
      const [workers, queues] = await Promise.all([allOf(api, "/v1/workers", "workers"), allOf(api, "/v1/queues", "queues")]);
      this.#none.hidden = workers.length > 0;
      keyed(this.#workers, workers, (worker) => worker.process, (worker) => this.#row(worker), updateWorker);
      keyed(this.#queues, queues, (queue) => queue.name,
        (queue) => el("tr", {}, cell("Queue", queue.name), cell("Waiting runs", "", "number"), cell("Workers", "", "number")),
        (row, queue) => {
          setText(row.children[1], count(queue.queued));
          setText(row.children[2], count(queue.workers));
        });
      this.#trouble.element.hidden = true;
    } catch (fault) {
      if (fault.name !== "ApiError") throw fault;
      if (this.#trouble.element.textContent === "" || this.#trouble.element.hidden) this.#trouble.fail(fault);
    }
  }

  #row(worker) {
    const drain = el("button", { type: "button", class: "button is-small", text: "Drain", on: { click: () => this.#drain(worker, drain) } });
    const row = el("tr", {},
      cell("Worker", worker.name || worker.process.slice(0, 12)), cell("Host", `${worker.host}:${worker.pid}`),
      cell("Runs", "", "number"), cell("Up", "", "number"), cell("Queues", ""), cell("Agents", ""), cell("State", ""),
      el("td", {}, this.context.isAdmin ? drain : null));
    row.drain = drain;
    return row;
  }

  async #drain(worker, button) {
    const name = worker.name || `${worker.host}:${worker.pid}`;
    const answer = await ask({
      title: "Drain this worker?",
      text: `${name} takes no more work, hands its runs back at their next boundary, and ends.`,
      action: "Drain", isDangerous: true,
    });
    if (answer === null) return;
    await doing([button], this.#outcome, async () => {
      await this.context.api.post(`${v1("workers", worker.process)}/drain`);
      return `${name} was asked to drain.`;
    });
    await this.#read();
  }
}

function updateWorker(row, worker) {
  const [, , runs, up, queues, agents, state] = row.children;
  const isGone = worker.lease_ms === null;
  const isLeaving = worker.draining || worker.drain_asked;
  setText(runs, `${count(worker.runs)} / ${count(worker.slots)}`);
  setText(up, span(now() - worker.started_at));
  setText(queues, worker.queues.join(", ") || NOTHING);
  setText(agents, worker.agents.join(", ") || NOTHING);
  setAttribute(agents, "title", worker.agents.join(", "));
  setText(state, isGone ? "lost" : worker.draining ? "draining" : worker.drain_asked ? "asked to drain" : "works");
  setAttribute(state, "data-state", isGone ? "FAILED" : isLeaving ? "CANCEL_REQUESTED" : "RUNNING");
  // One that has a single run to itself ends with the worker that started it.
  row.drain.hidden = isGone || isLeaving || worker.agents.length === 0;
}

function table(label, columns, rows) {
  return el("table", { class: "list is-stacked", "aria-label": label },
    el("thead", {}, el("tr", {}, ...columns.map((text) => el("th", { scope: "col" }, text || el("span", { class: "only-heard", text: "Actions" }))))), rows);
}

function cell(label, text, className = "") {
  return el("td", { "data-label": label, class: className, text });
}
