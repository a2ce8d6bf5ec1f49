// The runs below a run, and the way to the one above it.

import { el, keyed, setAttribute, setText } from "./dom.js";
import { short, words } from "./format.js";

export class FamilyView {
  #empty = el("p", { class: "quiet", text: "It has no children." });
  #list = el("ul", { class: "family" });
  above = el("span");
  element = el("div", {}, this.#empty, this.#list);

  constructor(context) {
    this.context = context;
    const parentId = context.live.find(context.runId)?.parent_id;
    if (parentId) this.#showAbove(parentId);
  }

  show(nodes) {
    const own = nodes.find((node) => node.run_id === this.context.runId);
    if (own?.parent_id) this.#showAbove(own.parent_id);
    const below = nodes.filter((node) => node.run_id !== this.context.runId);
    this.#empty.hidden = below.length > 0;
    keyed(this.#list, below, (node) => node.run_id, (node) => this.#row(node), (row, node) => {
      const [name, state, tokens] = row.firstElementChild.children;
      setText(name, node.agent);
      setAttribute(state, "data-state", node.state);
      setText(state, words(node.phase || node.state).toLowerCase());
      setText(tokens, node.usage ? `${short(node.usage.input_tokens + node.usage.output_tokens)} tokens` : "");
      row.style.setProperty("--level", node.depth - (own?.depth ?? 0) - 1);
    });
  }

  #row(node) {
    return el("li", {}, el("button", { type: "button", class: "family-run", on: { click: () => this.context.open(node.run_id) } },
      el("span", { class: "agent-name" }), el("span", { class: "state" }), el("span", { class: "number quiet" })));
  }

  #showAbove(parentId) {
    if (this.above.firstChild !== null) return;
    this.above.append(el("button", { type: "button", class: "link-button", text: "Parent run", on: { click: () => this.context.open(parentId) } }));
  }
}
