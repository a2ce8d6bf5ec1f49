// The filters above the tree.

import { el, keyed, setText } from "./dom.js";
import { ANY, NEEDS_HUMAN } from "./tree-model.js";

const STATES = [
  [ANY, "Any state"],
  [NEEDS_HUMAN, "Waits for a human"],
  ["PENDING", "Pending"],
  ["STARTING", "Starting"],
  ["RUNNING", "Running"],
  ["CANCEL_REQUESTED", "Cancel requested"],
  ["SUCCEEDED", "Succeeded"],
  ["FAILED", "Failed"],
  ["INTERRUPTED", "Interrupted"],
  ["CANCELLED", "Cancelled"],
];

export class Filters {
  /** @param {object} on `change()`, and `ended(session | null)` when ended runs are asked for */
  constructor(on) {
    const changed = () => on.change();
    this.text = el("input", { type: "search", placeholder: "Filter", "aria-label": "Filter by text", "aria-keyshortcuts": "/", spellcheck: "false", on: { input: changed } });
    this.agent = el("select", { "aria-label": "Filter by agent", on: { change: changed } });
    this.state = el("select", { "aria-label": "Filter by state", on: { change: changed } },
      ...STATES.map(([value, label]) => el("option", { value, text: label })));
    this.ended = el("input", { type: "checkbox", disabled: true });
    const askEnded = () => on.ended(this.ended.checked && this.session.value ? this.session.value : null);
    this.session = el("input", {
      type: "search", placeholder: "Session", "aria-label": "Filter by session", spellcheck: "false",
      on: {
        input: () => {
          this.ended.disabled = this.session.value === "";
          changed();
        },
        change: askEnded,
      },
    });
    this.ended.addEventListener("change", askEnded);
    this.element = el("div", { class: "filters", role: "search", "aria-label": "Runs" },
      this.text, this.agent, this.state, this.session,
      el("label", { class: "check", title: "Also this session's runs that have ended and are still kept" }, this.ended, el("span", { text: "with ended" })));
    this.offer([]);
  }

  get value() {
    return { text: this.text.value.trim(), agent: this.agent.value, state: this.state.value, session: this.session.value.trim() };
  }

  /** Offers these agents to choose from; the chosen one stays on offer. */
  offer(agents) {
    const names = [...new Set([...agents, this.agent.value])].filter((name) => name).sort();
    const chosen = this.agent.value;
    keyed(this.agent, [ANY, ...names], (name) => `-${name}`, (name) => el("option", { value: name }),
      (option, name) => setText(option, name || "Any agent"));
    this.agent.value = chosen;
  }
}
