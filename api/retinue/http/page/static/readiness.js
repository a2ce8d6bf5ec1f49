// The dot that says whether the service is ready: store, broker, and a worker that consumes.

import { address } from "./api.js";
import { el, setAttribute, setText } from "./dom.js";
import { words } from "./format.js";
import { pause } from "./pause.js";

const INTERVAL_MS = 10_000;
const LIMIT_MS = 15_000;

export class Readiness {
  #word = el("span", { text: "Checking" });
  #why = el("ul", { class: "readiness-why" });
  element = el("details", { class: "readiness", data: { state: "unknown" } },
    el("summary", {}, el("span", { class: "dot", "aria-hidden": "true" }), this.#word), this.#why);

  /** @param {string} key lets names be told as well */
  constructor(key) {
    this.headers = { Authorization: `Bearer ${key}` };
  }

  async keepUp(signal) {
    while (!signal.aborted) {
      await this.#read();
      await pause(INTERVAL_MS, signal);
    }
  }

  async #read() {
    try {
      const options = { cache: "no-store", credentials: "omit", headers: this.headers };
      const answer = await fetch(address("/readyz"), { ...options, signal: AbortSignal.timeout(LIMIT_MS) });
      const { ready, checks } = await answer.json();
      this.#show(ready ? "ready" : "unready", ready ? "Ready" : "Not ready", checks.map(({ name, detail }) => `${words(name)}: ${detail}`));
    } catch {
      this.#show("away", "Unreachable", ["The API does not answer."]);
    }
  }

  #show(state, word, why) {
    setAttribute(this.element, "data-state", state);
    setText(this.#word, word);
    this.#why.replaceChildren(...why.map((text) => el("li", { text })));
  }
}
