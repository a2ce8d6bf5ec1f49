// Cancel and interrupt a run that goes on; continue one that has ended.

import { ask } from "./dialog.js";
import { doing, Outcome } from "./doing.js";
import { el } from "./dom.js";

export class RunActions {
  #outcome = new Outcome();

  constructor(context) {
    this.context = context;
    this.interrupt = button("Interrupt", () => this.#stop("interrupt", {
      title: "Interrupt this run?",
      text: "It ends at its next iteration boundary, with the text it has so far. Runs below it go on by themselves.",
      action: "Interrupt", input: "Reason (optional)",
    }));
    this.cancel = button("Cancel", () => this.#stop("cancel", {
      title: "Cancel this run?",
      text: "It stops for good, with every run below it.",
      action: "Cancel the run", isDangerous: true, input: "Reason (optional)",
    }), "is-danger-quiet");
    this.live = el("div", { class: "actions" }, this.interrupt, this.cancel);
    this.field = el("textarea", { rows: 2, "aria-label": "Next message", placeholder: "Go on with this conversation", maxlength: 32_000 });
    this.send = el("button", { type: "submit", class: "button is-primary", text: "Continue" });
    this.ended = el("form", { class: "compose", on: { submit: (event) => this.#continue(event) } }, this.field, this.send);
    this.element = el("section", { class: "actions-part", "aria-label": "Actions" }, this.live, this.ended, this.#outcome.element);
    this.live.hidden = this.ended.hidden = true;
  }

  show(_status, hasEnded) {
    this.live.hidden = hasEnded || !this.context.mayWrite;
    this.ended.hidden = !hasEnded || !this.context.mayWrite;
  }

  async #stop(how, question) {
    const reason = await ask(question);
    if (reason === null) return;
    await doing([this.interrupt, this.cancel], this.#outcome, async () => {
      const done = await this.context.api.post(`${this.context.path}/${how}`, reason ? { reason } : {});
      this.context.changed();
      if (done.already_terminal) return "The run had ended already.";
      if (done.unsupported) return "A run of this kind cannot be interrupted now; it can be cancelled.";
      return how === "cancel" ? "Cancel accepted." : "Interrupt accepted.";
    });
  }

  async #continue(event) {
    event.preventDefault();
    const text = this.field.value.trim();
    if (text === "") return this.field.focus();
    await doing([this.send], this.#outcome, async () => {
      const { run_id } = await this.context.api.post(`${this.context.path}/continue`, { text }, { once: true });
      this.context.open(run_id);
    });
  }
}

function button(text, click, kind = "") {
  return el("button", { type: "button", class: `button ${kind}`, text, on: { click } });
}
