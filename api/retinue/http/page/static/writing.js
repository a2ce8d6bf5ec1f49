// What the model writes now, piece by piece; once it is recorded, the conversation itself has it.

import { el } from "./dom.js";

export class Writing {
  #iteration = null;
  #chars = 0;
  #text = el("div", { class: "long-text" });
  element = el("div", { class: "message is-writing", data: { role: "assistant" }, hidden: true },
    el("p", { class: "message-who", text: "writes" }), this.#text);

  constructor() {
    this.isOver = false;
  }

  /** Takes the next piece; one that begins at 0 begins anew, one that begins too late leaves a gap. */
  add({ iteration, offset, text }) {
    if (iteration !== this.#iteration || offset === 0) {
      this.#iteration = iteration;
      this.#chars = 0;
      this.#text.textContent = "";
    }
    if (offset > this.#chars) this.#text.append(" … ");
    this.#text.append(text);
    this.#chars = offset + [...text].length;
    this.isOver = false;
    this.element.hidden = false;
  }

  /** Goes, if what was written stands in the conversation. */
  settle() {
    if (this.isOver) this.element.hidden = true;
  }
}
