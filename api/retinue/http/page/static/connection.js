// The banner that says when the API is away, and when it is back. It goes by itself.

import { announce, setText } from "./dom.js";

const BACK_SHOWN_MS = 3_000;

export class Connection {
  #banner = document.getElementById("banner");
  #isLost = false;
  #timer = 0;

  constructor() {
    this.onRegained = () => {};
  }

  get isLost() {
    return this.#isLost;
  }

  answered() {
    if (!this.#isLost) return;
    this.#isLost = false;
    this.#show("back", "Connected again.");
    announce("Connected again.");
    this.#timer = setTimeout(() => this.hide(), BACK_SHOWN_MS);
    this.onRegained();
  }

  /** @param {import("./api.js").ApiError} fault */
  failed(fault) {
    this.#isLost = true;
    const why = fault.status ? fault.message : "The API does not answer.";
    this.#show("lost", `Connection lost. ${why} Trying again; what is shown is not up to date.`);
  }

  hide() {
    this.#isLost = false;
    clearTimeout(this.#timer);
    this.#banner.hidden = true;
  }

  #show(kind, text) {
    clearTimeout(this.#timer);
    this.#banner.dataset.kind = kind;
    setText(this.#banner, text);
    this.#banner.hidden = false;
  }
}
