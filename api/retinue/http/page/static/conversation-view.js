// What was said, without hidden reasoning. The newest page is asked for again as more is said.

import { doing, Outcome } from "./doing.js";
import { el, keyed } from "./dom.js";
import { exactText } from "./exact.js";
import { pretty } from "./format.js";
import { longText } from "./long-text.js";
import { Writing } from "./writing.js";

const LIMIT = 100;

export class ConversationView {
  #messages = [];
  #keys = new WeakMap();
  #lastKey = 0;
  #older = null;
  #outcome = new Outcome();
  #empty = el("p", { class: "quiet", text: "Loading" });
  #more = el("button", { type: "button", class: "button is-small", text: "Show older", hidden: true, on: { click: () => this.#loadOlder() } });
  #list = el("ol", { class: "messages" });
  #writing = new Writing();
  element = el("div", { class: "conversation" }, this.#empty, this.#more, this.#outcome.element, this.#list, this.#writing.element);

  constructor(context) {
    this.context = context;
  }

  /** Asks for the newest page, and joins it to what is there. */
  async load() {
    const page = await this.context.api.get(`${this.context.path}/messages?limit=${LIMIT}`);
    const joined = join(this.#messages, page.messages);
    // What is above a page that does not join on is unknown.
    if (joined === null || this.#messages.length === 0) this.#older = page.next_cursor;
    this.#messages = joined ?? page.messages;
    this.#paint();
    this.#writing.settle();
  }

  /** Shows a piece of what the model writes now. */
  write(piece) {
    this.#empty.hidden = true;
    this.#writing.add(piece);
  }

  /** Tells that it has written it: the next page has the whole. */
  written() {
    this.#writing.isOver = true;
  }

  #loadOlder() {
    return doing([this.#more], this.#outcome, async () => {
      const cursor = encodeURIComponent(this.#older);
      const page = await this.context.api.get(`${this.context.path}/messages?limit=${LIMIT}&cursor=${cursor}`);
      this.#messages = [...page.messages, ...this.#messages];
      this.#older = page.next_cursor;
      this.#paint();
    });
  }

  #paint() {
    this.#empty.textContent = "Nothing has been said yet.";
    this.#empty.hidden = this.#messages.length > 0;
    this.#more.hidden = this.#older === null;
    keyed(this.#list, this.#messages, (message) => this.#keyOf(message), makeMessage, () => {});
  }

  #keyOf(message) {
    if (!this.#keys.has(message)) this.#keys.set(message, String(++this.#lastKey));
    return this.#keys.get(message);
  }
}

/** What is known with a page that begins somewhere in it behind; null = the page does not join on. */
export function join(known, page) {
  const texts = page.map((message) => JSON.stringify(message));
  for (let start = Math.max(0, known.length - page.length); start < known.length; start += 1) {
    if (known.slice(start).every((message, index) => JSON.stringify(message) === texts[index])) {
      return [...known, ...page.slice(known.length - start)];
    }
  }
  return known.length === 0 ? page : null;
}

function makeMessage({ role, agent, text, calls, calls_left_out: left, call }) {
  const isTool = role === "tool";
  const who = isTool ? `result${call ? ` of ${call}` : ""}` : role === "assistant" ? (agent ?? "model") : role;
  return el("li", { class: "message", data: { role } },
    el("p", { class: "message-who", text: who }),
    text ? longText(isTool ? pretty(text) : text, isTool ? "is-code" : "") : null,
    ...calls.map(({ name, arguments: given }) =>
      el("div", { class: "message-call" }, el("p", {}, "calls ", el("code", { text: name })), longText(exactText(given), "is-code"))),
    left ? el("p", { class: "quiet small", text: `and ${left} more calls` }) : null);
}
