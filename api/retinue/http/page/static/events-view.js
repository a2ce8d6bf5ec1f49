// Events as they come, the newest first.

import { el, setText } from "./dom.js";
import { clock, shortId } from "./format.js";

const SHOWN_MAX = 400;

export class EventsView {
  #agents = new Map();
  #left = 0;
  #state = el("p", { class: "stream-state quiet small", text: "Connecting" });
  #more = el("p", { class: "quiet small", hidden: true });
  #list = el("ol", { class: "events", reversed: true });
  element = el("div", {}, this.#state, this.#list, this.#more);

  constructor(context) {
    this.context = context;
  }

  connection(state, fault) {
    const words = {
      open: "Following.", lost: "Connection lost; trying again.", ended: "The run has ended.",
      refused: fault?.message ?? "The events cannot be read.",
    };
    this.#state.dataset.state = state;
    setText(this.#state, words[state]);
  }

  /** Learns the agents' names of runs. */
  name(nodes) {
    for (const { run_id, agent } of nodes) this.#agents.set(run_id, agent);
  }

  add(type, event) {
    if (type === "run.created") this.#agents.set(event.run_id, event.data.agent);
    this.#list.prepend(type === "gap" ? gapRow() : this.#row(type, event));
    while (this.#list.childElementCount > SHOWN_MAX) {
      this.#list.lastElementChild.remove();
      this.#left += 1;
    }
    this.#more.hidden = this.#left === 0;
    setText(this.#more, `${this.#left} older events are not shown.`);
  }

  #row(type, event) {
    const isOwn = event.run_id === this.context.runId;
    const who = isOwn ? null : el("span", { class: "event-run", title: event.run_id, text: this.#agents.get(event.run_id) ?? shortId(event.run_id) });
    return el("li", { class: "event", data: { kind: type.split(".")[0] } },
      el("time", { datetime: event.at, text: clock(event.at) }), el("span", { class: "event-type", text: type }), who,
      el("span", { class: "event-data", text: dataText(event.data) }));
  }
}

function gapRow() {
  return el("li", { class: "event", data: { kind: "gap" } }, el("span", { text: "Events before this are not kept any more." }));
}

function dataText(data) {
  return Object.entries(data ?? {})
    .filter(([, value]) => value !== null && value !== "")
    .map(([name, value]) => `${name}=${typeof value === "object" ? JSON.stringify(value) : value}`)
    .join("  ");
}
