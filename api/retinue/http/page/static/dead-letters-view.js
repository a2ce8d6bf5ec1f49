// Runs that were given up because their processes were lost again and again.

import { v1 } from "./api.js";
import { ask } from "./dialog.js";
import { doing, Outcome } from "./doing.js";
import { el } from "./dom.js";
import { exact } from "./exact.js";
import { day, shortId, words } from "./format.js";

const COLUMNS = ["Agent", "Session", "Run", "Why", "Losses", "Ended", ""];

export class DeadLettersView {
  #outcome = new Outcome();
  #rows = el("tbody");
  #none = el("p", { class: "quiet", text: "No dead letters.", hidden: true });
  #more = el("button", { type: "button", class: "button", text: "Show more", hidden: true, on: { click: () => this.#load(this.cursor) } });
  element = el("div", { class: "page" },
    el("h1", { text: "Dead letters" }),
    el("p", { class: "quiet", text: "Runs that were given up because their worker processes were lost again and again." }),
    this.#outcome.element, this.#none,
    el("table", { class: "list is-stacked", "aria-label": "Dead letters" },
      el("thead", {}, el("tr", {}, ...COLUMNS.map((text) => el("th", { scope: "col" }, text || el("span", { class: "only-heard", text: "Actions" }))))), this.#rows),
    this.#more);

  constructor(context) {
    this.context = context;
    this.cursor = null;
    this.#load(null);
  }

  close() {}

  #load(cursor) {
    return doing([this.#more], this.#outcome, async () => {
      const after = cursor ? `&cursor=${encodeURIComponent(cursor)}` : "";
      const page = await this.context.api.get(`/v1/dead-letters?limit=50${after}`);
      if (cursor === null) this.#rows.replaceChildren();
      this.#rows.append(...page.dead_letters.flatMap((letter) => this.#row(letter)));
      this.cursor = page.next_cursor ?? null;
      this.#more.hidden = this.cursor === null;
      this.#none.hidden = this.#rows.childElementCount > 0;
    });
  }

  #row(letter) {
    const shown = el("tr", { class: "letter-request", hidden: true }, el("td", { colspan: COLUMNS.length }));
    const buttons = {
      show: small("Show", () => this.#show(letter, shown, buttons.show)),
      replay: small("Replay", () => this.#replay(letter, Object.values(buttons))),
      discard: small("Discard", () => this.#discard(letter, Object.values(buttons), [row, shown])),
    };
    buttons.show.setAttribute("aria-expanded", "false");
    // Only a root can be launched anew: a child belongs to a parent that has ended.
    buttons.replay.hidden = letter.parent_id !== null;
    const row = el("tr", {},
      cell("Agent", letter.agent), cell("Session", letter.session_id),
      el("td", { "data-label": "Run" }, el("code", { title: letter.run_id, text: shortId(letter.run_id) })),
      cell("Why", words(letter.error_classification).toLowerCase()), cell("Losses", letter.losses, "number"), cell("Ended", day(letter.ended_at)),
      el("td", { class: "row-actions" }, ...Object.values(buttons)));
    return [row, shown];
  }

  async #show(letter, place, button) {
    if (place.hidden) {
      await doing([button], this.#outcome, async () => {
        const told = await this.context.api.getExact(v1("dead-letters", letter.run_id));
        place.firstElementChild.replaceChildren(el("pre", { class: "arguments", tabindex: 0, "aria-label": "Request", text: exact(told.request ?? {}) }));
        place.hidden = false;
      });
    } else place.hidden = true;
    button.setAttribute("aria-expanded", String(!place.hidden));
  }

  #replay(letter, buttons) {
    return doing(buttons, this.#outcome, async () => {
      const { run_id } = await this.context.api.post(`${v1("dead-letters", letter.run_id)}/replay`);
      this.context.open(run_id);
    });
  }

  async #discard(letter, buttons, rows) {
    const answer = await ask({
      title: "Discard this dead letter?", text: "The record of the run and of its request is removed.",
      action: "Discard", isDangerous: true,
    });
    if (answer === null) return;
    await doing(buttons, this.#outcome, async () => {
      await this.context.api.delete(v1("dead-letters", letter.run_id));
      for (const row of rows) row.remove();
      this.#none.hidden = this.#rows.childElementCount > 0;
      return "Discarded.";
    });
  }
}

function small(text, click) {
  return el("button", { type: "button", class: "button is-small", text, on: { click } });
}

function cell(label, text, className = "") {
  return el("td", { "data-label": label, class: className, text });
}
