// What a run came to.

import { el } from "./dom.js";
import { duration, pretty, words } from "./format.js";
import { longText } from "./long-text.js";

export class ResultView {
  #body = el("div");
  element = el("section", { class: "result", "aria-label": "Result", hidden: true }, el("h3", { text: "Result" }), this.#body);

  constructor(context) {
    this.context = context;
  }

  async load() {
    const result = await this.context.api.get(`${this.context.path}/result`);
    if (!result.ready) return;
    const { error_classification: kind, error_message: message, summary, structured_payload: payload } = result;
    const took = result.started_at === null ? null : duration((result.completed_at - result.started_at) * 1000);
    this.#body.replaceChildren(...[
      kind && el("p", { class: "fault-line" }, el("strong", { text: words(kind) }), message ? `: ${message}` : ""),
      summary && longText(summary),
      payload !== null && payload !== undefined ? longText(pretty(payload), "is-code") : null,
      took && el("p", { class: "quiet small", text: `Took ${took}${result.truncated ? "; the text was cut" : ""}.` }),
    ].filter((part) => part));
    this.element.hidden = false;
  }
}
