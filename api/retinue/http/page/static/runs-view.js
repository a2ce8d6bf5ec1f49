// The tree of what runs now, with filters, and the details of the run that is open.

import { announce, el, setText } from "./dom.js";
import { Details } from "./details.js";
import { Filters } from "./filters.js";
import { count } from "./format.js";
import { openLaunch } from "./launch.js";
import { TERMINAL } from "./live.js";
import { TreeGrid } from "./tree-grid.js";
import { isFiltering, rowsOf } from "./tree-model.js";

export class RunsView {
  #folded = new Set();
  #details = null;
  #asking = 0;
  #isWaiting = false;

  /** @param {object} context `api`, `live`, `router`, `mayWrite` */
  constructor(context) {
    this.context = context;
    this.filters = new Filters({ change: () => this.paint(), ended: (session) => this.#showEnded(session) });
    this.tree = new TreeGrid({
      open: (runId) => context.router.go("runs", runId),
      fold: (runId, isFolded) => {
        if (isFolded) this.#folded.add(runId);
        else this.#folded.delete(runId);
        this.paint();
      },
    });
    this.total = el("p", { class: "total quiet" });
    const launch = el("button", { type: "button", class: "button is-primary", text: "Launch", on: { click: () => this.#launch() } });
    this.element = el("div", { class: "runs" },
      el("section", { class: "runs-list", "aria-label": "Live runs" },
        el("div", { class: "toolbar" }, this.filters.element, this.total, context.mayWrite ? launch : null),
        this.tree.element));
    this.tick = setInterval(() => this.tree.paint(), 1000);
    context.live.onChange = () => this.#paintSoon();
    document.addEventListener("keydown", this.onKey);
    this.paint();
  }

  onKey = (event) => {
    if (event.key === "/" && !event.target.closest("input, textarea, select, dialog")) {
      event.preventDefault();
      this.filters.text.focus();
    } else if (event.key === "Escape" && this.#details !== null && !event.defaultPrevented && !document.querySelector("dialog")) {
      this.context.router.go("runs");
    }
  };

  close() {
    clearInterval(this.tick);
    document.removeEventListener("keydown", this.onKey);
    this.context.live.onChange = () => {};
    this.#details?.close();
  }

  /** Opens the details of a run; null = closes them, and gives the focus back to its row. */
  open(runId) {
    if (this.#details?.runId === runId) return;
    const before = this.#details?.runId ?? null;
    this.#details?.close();
    this.#details = runId === null ? null : new Details({
      ...this.context, runId,
      open: (id) => this.context.router.go("runs", id),
      close: () => this.context.router.go("runs"),
    });
    this.element.classList.toggle("has-details", runId !== null);
    this.tree.select(runId);
    if (runId !== null) {
      this.element.append(this.#details.element);
      this.#details.focus();
    } else if (before !== null) this.tree.focus(before);
  }

  paint() {
    const { live } = this.context;
    const { runs } = live;
    const filter = this.filters.value;
    const rows = rowsOf(runs, this.#folded, filter);
    this.tree.show(rows, this.#note(rows, filter));
    this.filters.offer(new Set(runs.map((run) => run.agent)));
    const alive = runs.filter((run) => !TERMINAL.has(run.state) && run.ended_at === undefined);
    const asking = alive.filter((run) => run.pending > 0).length;
    setText(this.total, `${count(alive.length)} live${live.leftOut ? ` of ${count(alive.length + live.leftOut)}` : ""}${asking ? `, ${asking} to decide` : ""}`);
    if (asking > this.#asking) announce(`${asking === 1 ? "A run waits" : `${asking} runs wait`} for a human.`);
    this.#asking = asking;
    document.title = asking ? `(${asking}) Retinue` : "Retinue";
  }

  // Several answers within a frame make one picture.
  #paintSoon() {
    if (this.#isWaiting) return;
    this.#isWaiting = true;
    setTimeout(() => {
      this.#isWaiting = false;
      this.paint();
    }, 16);
  }

  #note(rows, filter) {
    if (rows.length > 0) return "";
    if (!this.context.live.isLoaded) return "Loading";
    return isFiltering(filter) ? "No run passes the filters." : "Nothing runs now. Launch a run, or wait for one.";
  }

  #launch() {
    openLaunch(this.context.api, this.filters.value.session, (runId) => {
      this.context.live.soon();
      this.context.router.go("runs", runId);
    });
  }

  #showEnded(session) {
    this.context.live.showEndedOf(session).catch((fault) => announce(fault.message));
  }
}
