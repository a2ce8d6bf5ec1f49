// The run's tool calls with their durations, folded from its events.

import { now } from "./clock.js";
import { el, keyed, setAttribute, setText } from "./dom.js";
import { duration } from "./format.js";

export class ToolCallsView {
  #calls = new Map();
  #isWaiting = false;
  #empty = el("p", { class: "quiet", text: "No tool has been called yet." });
  #rows = el("tbody");
  #table = el("table", { class: "list", hidden: true },
    el("thead", {}, el("tr", {}, ...["Iter.", "Tool", "State", "Took"].map((text) => el("th", { scope: "col", text })))), this.#rows);
  element = el("div", {}, this.#empty, this.#table);

  add({ type, at, data }) {
    const place = `${data.iteration}:${data.index}`;
    if (type === "tool.started") {
      this.#calls.set(place, { place, iteration: data.iteration, tool: data.tool, state: "running", begun: Date.parse(at) });
    } else if (type === "tool.finished") {
      const begun = this.#calls.get(place)?.begun ?? null;
      this.#calls.set(place, { place, iteration: data.iteration, tool: data.tool, state: data.ok ? "returned" : "failed", begun, took: data.duration_ms });
    } else if (type === "run.finished") {
      for (const call of this.#calls.values()) if (call.state === "running") call.state = "cut off";
    } else return;
    this.#paintSoon();
  }

  // A long log arrives at once.
  #paintSoon() {
    if (this.#isWaiting) return;
    this.#isWaiting = true;
    requestAnimationFrame(() => {
      this.#isWaiting = false;
      this.#paint();
    });
  }

  #paint() {
    const calls = [...this.#calls.values()];
    this.#empty.hidden = calls.length > 0;
    this.#table.hidden = calls.length === 0;
    keyed(this.#rows, calls, (call) => call.place, makeRow, updateRow);
    clearTimeout(this.timer);
    if (calls.some((call) => call.state === "running") && this.element.isConnected) this.timer = setTimeout(() => this.#paint(), 1000);
  }
}

function makeRow(call) {
  return el("tr", {}, el("td", { class: "number", text: call.iteration }), el("td", {}, el("code", { text: call.tool })),
    el("td", { class: "call-state" }), el("td", { class: "number" }));
}

function updateRow(row, call) {
  const [, , state, took] = row.children;
  setAttribute(state, "data-state", call.state);
  setText(state, call.state);
  setText(took, call.state === "running" ? duration(now() * 1000 - call.begun) : duration(call.took));
}
