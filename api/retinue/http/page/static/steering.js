// Messages to a run, and what became of each that was sent from here.

import { doing, Outcome } from "./doing.js";
import { el, keyed, setAttribute, setText } from "./dom.js";

const OPEN = "queued";

export class Steering {
  #sent = [];
  #outcome = new Outcome();
  #field = el("textarea", { rows: 2, "aria-label": "Steer", placeholder: "Steer: what the model should know next", maxlength: 32_000 });
  #send = el("button", { type: "submit", class: "button is-primary", text: "Send" });
  #form = el("form", { class: "compose", on: { submit: (event) => this.#steer(event) } }, this.#field, this.#send);
  #list = el("ul", { class: "steers", "aria-label": "Messages sent" });
  element = el("section", { class: "steering", "aria-label": "Steer", hidden: true }, this.#form, this.#outcome.element, this.#list);

  constructor(context) {
    this.context = context;
    this.#field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.#form.requestSubmit();
    });
  }

  show(hasEnded) {
    this.#form.hidden = hasEnded || !this.context.mayWrite;
    this.element.hidden = this.#form.hidden && this.#sent.length === 0;
  }

  /** Asks what became of those that were not delivered yet. */
  async ask() {
    const open = this.#sent.filter((each) => each.state === OPEN);
    await Promise.all(open.map(async (each) => {
      Object.assign(each, await this.context.api.get(`${this.context.path}/steers/${encodeURIComponent(each.steer_id)}`), { text: each.text });
    }));
    this.#paint();
  }

  async #steer(event) {
    event.preventDefault();
    const text = this.#field.value.trim();
    if (text === "") return this.#field.focus();
    await doing([this.#send], this.#outcome, async () => {
      const receipt = await this.context.api.post(`${this.context.path}/steers`, { text });
      if (receipt.state === "unsupported") return "A run of this kind cannot be steered.";
      if (receipt.steer_id === "") return "It was not accepted: the run ends or has ended.";
      this.#sent.unshift({ ...receipt, text });
      this.#field.value = "";
      this.#paint();
      return "Message queued.";
    });
    // It may have been delivered before this page knew its name.
    await this.ask().catch(() => {});
  }

  #paint() {
    keyed(this.#list, this.#sent, (each) => each.steer_id,
      (each) => el("li", {}, el("span", { class: "steer-text", text: each.text }), el("span", { class: "fate" })),
      (row, each) => {
        setAttribute(row.lastElementChild, "data-state", each.state);
        setText(row.lastElementChild, each.state === "delivered" ? `delivered in iteration ${each.iteration}` : each.state);
      });
  }
}
