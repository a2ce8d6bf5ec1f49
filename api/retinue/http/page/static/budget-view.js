// The run's own budget: what is used of each cap, and a raise.

import { doing, Outcome } from "./doing.js";
import { el, keyed, setAttribute, setText } from "./dom.js";
import { count, span, usd, words } from "./format.js";

export class BudgetView {
  #caps = el("div", { class: "caps" });
  #outcome = new Outcome();
  #name = el("select", { "aria-label": "Cap" });
  #amount = el("input", { type: "number", min: 0, step: "any", required: true, "aria-label": "New cap", placeholder: "New cap" });
  #send = el("button", { type: "submit", class: "button", text: "Raise" });
  #form = el("form", { class: "raise", on: { submit: (event) => this.#raise(event) } }, this.#name, this.#amount, this.#send);
  element = el("section", { class: "budget", "aria-label": "Budget", hidden: true },
    el("h3", { text: "Budget" }), this.#caps, this.#form, this.#outcome.element);

  constructor(context) {
    this.context = context;
  }

  show({ budget, phase }, hasEnded) {
    this.element.hidden = !budget;
    if (!budget) return;
    const caps = Object.entries(budget).filter(([name]) => name !== "on_spent");
    this.element.classList.toggle("is-spent", phase === "paused_budget");
    keyed(this.#caps, caps, ([name]) => name, makeCap, updateCap);
    keyed(this.#name, caps, ([name]) => name, ([name]) => el("option", { value: name, text: words(name) }), () => {});
    this.#form.hidden = hasEnded || !this.context.mayWrite;
  }

  #raise(event) {
    event.preventDefault();
    const caps = { [this.#name.value]: Number(this.#amount.value) };
    return doing([this.#send], this.#outcome, async () => {
      const done = await this.context.api.post(`${this.context.path}/budget`, caps);
      this.context.changed();
      if (!done.accepted) return done.already_terminal ? "The run has ended." : "It was not accepted.";
      this.#amount.value = "";
      return "Raised.";
    });
  }
}

function makeCap([name]) {
  return el("div", { class: "cap" }, el("span", { text: words(name) }), el("meter", { min: 0, "aria-label": words(name) }), el("span", { class: "number" }));
}

function updateCap(row, [name, cap]) {
  const [, meter, text] = row.children;
  setAttribute(meter, "max", cap.limit);
  setAttribute(meter, "high", cap.limit * 0.8);
  setAttribute(meter, "value", Math.min(cap.limit, cap.used));
  setText(text, `${amount(name, cap.used)} of ${amount(name, cap.limit)}`);
}

function amount(name, value) {
  if (name === "usd") return usd(value);
  return name === "wall_seconds" ? span(value) : count(value);
}
