// One run: how it stands, what it says and does, and what can be done about it.

import { v1 } from "./api.js";
import { RunActions } from "./run-actions.js";
import { BudgetView } from "./budget-view.js";
import { ConversationView } from "./conversation-view.js";
import { Decisions } from "./decisions.js";
import { el, setAttribute, setText } from "./dom.js";
import { EventsView } from "./events-view.js";
import { FactsView } from "./facts-view.js";
import { FamilyView } from "./family-view.js";
import { shortId, words } from "./format.js";
import { TERMINAL } from "./live.js";
import { pause } from "./pause.js";
import { ResultView } from "./result-view.js";
import { follow } from "./sse.js";
import { Steering } from "./steering.js";
import { tabs } from "./tabs.js";
import { ToolCallsView } from "./tool-calls-view.js";

const REFRESH_MS = 5_000;
const GATHER_MS = 250;

// Which event makes which part out of date, besides the status.
const TELLS_MESSAGES = /^(model\.finished|tool\.finished|steer\.delivered|run\.finished|run\.handed_off|input\.)/;
const TELLS_FAMILY = /^run\./;
const TELLS_STEERS = /^(steer\.|run\.finished)/;

export class Details {
  #ends = new AbortController();
  #wake = new AbortController();
  #stale = new Set(["messages", "family"]);
  #isEnded = false;

  /**
   * @param {object} context `api`, `runId`, `live`, `mayWrite`, `open(runId)`, `close()`, `changed()`
   */
  constructor(context) {
    this.context = context;
    this.runId = context.runId;
    this.path = v1("runs", this.runId);
    const own = { ...context, path: this.path, changed: () => this.#refreshSoon("messages", "family") };
    this.parts = {
      actions: new RunActions(own), decisions: new Decisions(own), result: new ResultView(own), facts: new FactsView(),
      budget: new BudgetView(own), steering: new Steering(own), conversation: new ConversationView(own),
      events: new EventsView(own), calls: new ToolCallsView(), family: new FamilyView(own),
    };
    this.element = this.#build();
    this.#follow();
    this.#keepUp();
  }

  close() {
    this.#ends.abort();
    this.#wake.abort();
    this.element.remove();
  }

  focus() {
    this.title.focus();
  }

  #build() {
    const { parts } = this;
    this.title = el("h2", { id: "details-title", tabindex: -1, text: this.context.live.find(this.runId)?.agent ?? "Run" });
    this.state = el("span", { class: "state" });
    this.phase = el("span", { class: "phase" });
    this.trouble = el("p", { class: "outcome", data: { kind: "failed" }, hidden: true });
    const id = el("code", { class: "run-id", title: this.runId, text: shortId(this.runId) });
    const copy = el("button", { type: "button", class: "link-button", text: "Copy id", on: { click: () => this.#copy(copy) } });
    return el("aside", { class: "details", "aria-labelledby": "details-title", on: { keydown: (event) => this.#onKey(event) } },
      el("header", { class: "details-head" },
        el("div", { class: "details-name" }, this.title, this.state, this.phase),
        el("button", { type: "button", class: "icon-button", "aria-label": "Close details", title: "Close (Esc)", text: "×", on: { click: () => this.context.close() } }),
        el("p", { class: "details-ids" }, id, copy, parts.family.above)),
      el("div", { class: "details-body" },
        this.trouble,
        parts.actions.element, parts.decisions.element, parts.result.element, parts.steering.element,
        parts.facts.element, parts.budget.element,
        tabs("About the run", [
          { name: "Conversation", panel: parts.conversation.element },
          { name: "Events", panel: parts.events.element },
          { name: "Tool calls", panel: parts.calls.element },
          { name: "Children", panel: parts.family.element },
        ])));
  }

  #onKey(event) {
    if (event.key !== "Escape" || event.defaultPrevented || event.target.closest("dialog")) return;
    event.preventDefault();
    this.context.close();
  }

  async #copy(button) {
    try {
      await navigator.clipboard.writeText(this.runId);
      button.textContent = "Copied";
    } catch {
      button.textContent = this.runId;
    }
  }

  #follow() {
    const { parts } = this;
    follow(this.context.api, `${this.path}/events/stream?deltas=true`, this.#ends.signal, {
      event: (message) => this.#onEvent(message),
      state: (state, fault) => {
        parts.events.connection(state, fault);
        if (state === "open") this.#refreshSoon("messages", "family", "steers");
      },
      isLast: ({ type, data }) => type === "end" || (type === "run.finished" && JSON.parse(data).run_id === this.runId),
      isOver: () => this.#isEnded,
    });
  }

  #onEvent({ type, data }) {
    if (type === "end") return this.#refreshSoon("messages", "family", "steers");
    const event = JSON.parse(data);
    const isOwn = event.run_id === this.runId;
    if (type === "model.delta") return isOwn ? this.parts.conversation.write(event) : undefined;
    this.parts.events.add(type, event);
    if (type === "tool.progress") return;
    if (isOwn) {
      this.parts.calls.add(event);
      if (type === "model.finished" || type === "run.finished") this.parts.conversation.written();
      if (TELLS_MESSAGES.test(type)) this.#stale.add("messages");
      if (TELLS_STEERS.test(type)) this.#stale.add("steers");
    }
    if (TELLS_FAMILY.test(type)) this.#stale.add("family");
    this.#refreshSoon();
  }

  #refreshSoon(...stale) {
    for (const name of stale) this.#stale.add(name);
    this.#wake.abort();
  }

  async #keepUp() {
    const { signal } = this.#ends;
    while (!signal.aborted) {
      this.#wake = new AbortController();
      await this.#refresh();
      await pause(this.#isEnded ? 60_000 : REFRESH_MS, this.#wake.signal);
      // A burst of events makes one refresh.
      await pause(GATHER_MS, signal);
    }
  }

  async #refresh() {
    const { parts, context: { api } } = this;
    const stale = this.#stale;
    this.#stale = new Set();
    try {
      const [status, pending, tree] = await Promise.all([
        api.get(this.path),
        api.getExact(`${this.path}/pending`),
        stale.has("family") ? api.get(`${this.path}/tree`) : null,
        stale.has("messages") ? parts.conversation.load() : null,
        stale.has("steers") ? parts.steering.ask() : null,
      ]);
      if (!this.#ends.signal.aborted) await this.#show(status, pending.requests, tree?.nodes);
    } catch (fault) {
      if (fault.name !== "ApiError") throw fault;
      for (const name of stale) this.#stale.add(name);
      setText(this.trouble, fault.message);
      this.trouble.hidden = fault.passes;
      this.#isEnded ||= fault.status === 404;
    }
  }

  async #show(status, requests, nodes) {
    const { parts } = this;
    const hasEnded = TERMINAL.has(status.state);
    this.trouble.hidden = true;
    setText(this.title, status.agent ?? "Run");
    setAttribute(this.state, "data-state", status.state);
    setText(this.state, words(status.state).toLowerCase());
    setAttribute(this.phase, "data-phase", status.phase);
    setText(this.phase, words(status.phase));
    parts.actions.show(status, hasEnded);
    parts.decisions.show(requests);
    parts.facts.show(status, this.context.live.find(this.runId), hasEnded);
    parts.budget.show(status, hasEnded);
    parts.steering.show(hasEnded);
    if (nodes) {
      parts.family.show(nodes);
      parts.events.name(nodes);
    }
    if (hasEnded && !this.#isEnded) await parts.result.load();
    this.#isEnded = hasEnded;
  }
}
