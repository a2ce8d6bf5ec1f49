// One row of the tree: made once, then only what changed is touched.

import { now } from "./clock.js";
import { el, setAttribute, setText } from "./dom.js";
import { TERMINAL } from "./live.js";
import { count, NOTHING, short, span, usd, words } from "./format.js";

export const COLUMNS = [
  ["agent", "Agent"],
  ["state", "State"],
  ["iteration", "Iter."],
  ["tokens", "Tokens"],
  ["usd", "USD"],
  ["age", "Age"],
  ["queue", "Queue"],
  ["worker", "Worker"],
  ["session", "Session"],
];

export function makeRow() {
  const cells = Object.fromEntries(
    COLUMNS.slice(2).map(([name, label]) => [name, el("div", { role: "gridcell", class: `cell cell-${name}`, "data-label": label })]),
  );
  const parts = {
    twisty: el("span", { class: "twisty", "aria-hidden": "true" }),
    agent: el("span", { class: "agent-name" }),
    asks: el("span", { class: "asks" }),
    state: el("span", { class: "state" }),
    phase: el("span", { class: "phase" }),
  };
  const row = el(
    "div",
    { role: "row", class: "tree-row", tabindex: "-1" },
    el("div", { role: "gridcell", class: "cell cell-agent" }, parts.twisty, parts.agent, parts.asks),
    el("div", { role: "gridcell", class: "cell cell-state" }, parts.state, parts.phase),
    ...Object.values(cells),
  );
  row.parts = { ...parts, ...cells };
  return row;
}

/** @param {object} at the row's number, whether it is the selected and whether it is the tab stop */
export function updateRow(row, { run, level, isParent, isOpen, position, siblings, matches }, at) {
  const { parts } = row;
  setAttribute(row, "aria-level", level);
  setAttribute(row, "aria-posinset", position);
  setAttribute(row, "aria-setsize", siblings);
  setAttribute(row, "aria-rowindex", at.index + 2);
  setAttribute(row, "aria-expanded", isParent ? isOpen : null);
  setAttribute(row, "aria-selected", at.isSelected);
  setAttribute(row, "tabindex", at.isTabStop ? 0 : -1);
  row.classList.toggle("is-ended", run.ended_at !== undefined || TERMINAL.has(run.state));
  row.classList.toggle("is-context", !matches);
  if (row.top !== at.top) {
    row.top = at.top;
    row.style.setProperty("transform", `translateY(${at.top}px)`);
  }
  if (row.level !== level) {
    row.level = level;
    // Deep trees must not push the name out of sight.
    row.style.setProperty("--level", Math.min(level - 1, 8));
  }
  setText(parts.agent, run.agent ?? NOTHING);
  setAttribute(parts.agent, "title", `${run.agent ?? ""} ${run.run_id}`);
  setText(parts.asks, run.pending ? `${run.pending} to decide` : "");
  setAttribute(parts.state, "data-state", run.state);
  setText(parts.state, words(run.state).toLowerCase());
  setAttribute(parts.phase, "data-phase", run.phase);
  setText(parts.phase, words(run.phase));
  setText(parts.iteration, count(run.iteration));
  setText(parts.tokens, short((run.input_tokens ?? NaN) + (run.output_tokens ?? NaN)));
  setText(parts.usd, usd(run.usd));
  setText(parts.age, ageOf(run));
  setText(parts.queue, run.queue || NOTHING);
  setText(parts.worker, run.worker || NOTHING);
  setAttribute(parts.worker, "title", run.worker || null);
  setText(parts.session, run.session_id ?? NOTHING);
  setAttribute(parts.session, "title", run.session_id ?? null);
}

function ageOf(run) {
  return span((run.ended_at ?? now()) - run.created_at);
}
