// The tree as an ARIA treegrid. Only the rows in sight, and the one with the focus, are in the document.

import { el, keyed, setAttribute, setText } from "./dom.js";
import { COLUMNS, makeRow, updateRow } from "./tree-row.js";

const SPARE_ROWS = 8;

export class TreeGrid {
  #rows = [];
  #indexOf = new Map();
  #activeId = null;
  #selectedId = null;
  #rowHeight = 36;
  #isPainting = false;

  /** @param {object} on `open(runId)` and `fold(runId, isFolded)` */
  constructor(on) {
    this.on = on;
    const headings = COLUMNS.map(([name, label]) =>
      el("div", { role: "columnheader", class: `cell cell-${name}`, text: label }),
    );
    this.head = el("div", { role: "rowgroup", class: "tree-head" },
      el("div", { role: "row", class: "tree-heading", "aria-rowindex": 1 }, ...headings));
    this.body = el("div", { role: "rowgroup", class: "tree-rows" });
    this.scroll = el("div", { class: "tree-scroll", role: "presentation" }, this.body);
    this.note = el("p", { class: "tree-note" });
    this.element = el("div", { class: "tree" },
      el("div", { role: "treegrid", class: "tree-grid", "aria-label": "Runs", "aria-colcount": COLUMNS.length }, this.head, this.scroll),
      this.note);
    this.grid = this.element.firstElementChild;
    this.grid.addEventListener("keydown", (event) => this.#onKey(event));
    this.body.addEventListener("click", (event) => this.#onClick(event));
    this.body.addEventListener("focusin", (event) => this.#onFocus(event));
    this.scroll.addEventListener("scroll", () => this.#paintSoon(), { passive: true });
    new ResizeObserver(() => this.#onResize()).observe(this.scroll);
  }

  /** Shows these rows. What is at the top of the view stays there, unless it is the very top. */
  show(rows, note = "") {
    const anchor = this.#anchor();
    const before = this.#indexOf.get(this.#activeId) ?? 0;
    this.#rows = rows;
    this.#indexOf = new Map(rows.map((row, index) => [row.run.run_id, index]));
    if (!this.#indexOf.has(this.#activeId)) this.#activeId = rows[Math.min(before, rows.length - 1)]?.run.run_id ?? null;
    setAttribute(this.grid, "aria-rowcount", rows.length + 1);
    setText(this.note, note);
    this.note.hidden = note === "";
    this.body.style.setProperty("height", `${rows.length * this.#rowHeight}px`);
    if (anchor !== null && this.#indexOf.has(anchor.id)) {
      this.scroll.scrollTop = this.#indexOf.get(anchor.id) * this.#rowHeight + anchor.offset;
    }
    this.paint();
  }

  /** Marks the run whose details are open; null = none. */
  select(runId) {
    this.#selectedId = runId;
    this.paint();
  }

  /** Puts the focus on a row, or on the tab stop if that run has none. */
  focus(runId = this.#activeId) {
    if (this.#rows.length > 0) this.#moveTo(this.#indexOf.get(runId) ?? this.#indexOf.get(this.#activeId) ?? 0);
  }

  paint() {
    const hadFocus = this.body.contains(document.activeElement);
    const height = this.#rowHeight;
    const first = Math.max(0, Math.floor(this.scroll.scrollTop / height) - SPARE_ROWS);
    const last = Math.min(this.#rows.length, Math.ceil((this.scroll.scrollTop + this.scroll.clientHeight) / height) + SPARE_ROWS);
    const indexes = Array.from({ length: Math.max(0, last - first) }, (_, number) => first + number);
    const active = this.#indexOf.get(this.#activeId);
    if (active !== undefined && active < first) indexes.unshift(active);
    if (active !== undefined && active >= last) indexes.push(active);
    keyed(this.body, indexes, (index) => this.#rows[index].run.run_id, makeRow, (element, index) => {
      const id = this.#rows[index].run.run_id;
      updateRow(element, this.#rows[index], {
        index, top: index * height, isSelected: id === this.#selectedId, isTabStop: id === this.#activeId,
      });
    });
    if (hadFocus && !this.body.contains(document.activeElement)) this.#focusTabStop();
  }

  #paintSoon() {
    if (this.#isPainting) return;
    this.#isPainting = true;
    requestAnimationFrame(() => {
      this.#isPainting = false;
      this.paint();
    });
  }

  #onResize() {
    const told = parseFloat(getComputedStyle(this.body).getPropertyValue("--row-height"));
    const anchor = this.#anchor();
    if (Number.isFinite(told) && told !== this.#rowHeight) {
      this.#rowHeight = told;
      this.body.style.setProperty("height", `${this.#rows.length * told}px`);
      if (anchor !== null) this.scroll.scrollTop = this.#indexOf.get(anchor.id) * told;
    }
    this.paint();
  }

  #anchor() {
    const top = this.scroll.scrollTop;
    const row = this.#rows[Math.floor(top / this.#rowHeight)];
    return top > 0 && row ? { id: row.run.run_id, offset: top % this.#rowHeight } : null;
  }

  #onClick(event) {
    const row = event.target.closest(".tree-row");
    if (row === null) return;
    const index = this.#indexOf.get(row.dataset.key);
    if (event.target.closest(".twisty") && this.#rows[index].isParent) this.#fold(index, this.#rows[index].isOpen);
    else this.on.open(row.dataset.key);
    this.#moveTo(index);
  }

  #onFocus(event) {
    const row = event.target.closest(".tree-row");
    if (row !== null && row.dataset.key !== this.#activeId) {
      this.#activeId = row.dataset.key;
      this.paint();
    }
  }

  #onKey(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || this.#rows.length === 0) return;
    const index = this.#indexOf.get(this.#activeId) ?? 0;
    const page = Math.max(1, Math.floor(this.scroll.clientHeight / this.#rowHeight) - 1);
    const moves = {
      ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: this.#rows.length - 1,
      PageDown: index + page, PageUp: index - page,
    };
    if (event.key in moves) this.#moveTo(moves[event.key]);
    else if (event.key === "ArrowRight") this.#goIn(index);
    else if (event.key === "ArrowLeft") this.#goOut(index);
    else if (event.key === "Enter" || event.key === " ") this.on.open(this.#activeId);
    else return;
    event.preventDefault();
  }

  #goIn(index) {
    const { isParent, isOpen } = this.#rows[index];
    if (isParent && !isOpen) this.#fold(index, false);
    else if (isParent) this.#moveTo(index + 1);
  }

  #goOut(index) {
    const { isOpen, level } = this.#rows[index];
    if (isOpen) return this.#fold(index, true);
    let above = index;
    while (above > 0 && this.#rows[above].level >= level) above -= 1;
    if (this.#rows[above].level < level) this.#moveTo(above);
  }

  #fold(index, isFolded) {
    this.on.fold(this.#rows[index].run.run_id, isFolded);
  }

  #moveTo(wanted) {
    const index = Math.min(this.#rows.length - 1, Math.max(0, wanted));
    this.#activeId = this.#rows[index].run.run_id;
    const top = index * this.#rowHeight;
    const view = this.scroll.clientHeight;
    if (top < this.scroll.scrollTop) this.scroll.scrollTop = top;
    else if (top + this.#rowHeight > this.scroll.scrollTop + view) this.scroll.scrollTop = top + this.#rowHeight - view;
    this.paint();
    this.#focusTabStop();
  }

  #focusTabStop() {
    this.body.querySelector('[tabindex="0"]')?.focus({ preventScroll: true });
  }
}
