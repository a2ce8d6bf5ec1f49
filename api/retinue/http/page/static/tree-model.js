// Which rows the tree has: order, level, what is folded, what the filters leave. Pure.

export const ANY = "";
export const NEEDS_HUMAN = "needs-human";

export const NO_FILTER = Object.freeze({ text: "", agent: ANY, state: ANY, session: "" });

/**
 * @param {Array<object>} runs parents before children
 * @param {Set<string>} folded ids of runs whose children are not shown
 * @param {object} filter as NO_FILTER
 * @returns {Array<{run, level, isParent, isOpen, position, siblings, matches}>} the rows from top to bottom
 */
export function rowsOf(runs, folded, filter) {
  const childrenOf = new Map();
  const known = new Set(runs.map((run) => run.run_id));
  const roots = [];
  for (const run of runs) {
    if (run.parent_id && known.has(run.parent_id)) {
      const siblings = childrenOf.get(run.parent_id);
      if (siblings === undefined) childrenOf.set(run.parent_id, [run]);
      else siblings.push(run);
    } else roots.push(run);
  }
  roots.sort((one, other) => other.created_at - one.created_at || compare(one.run_id, other.run_id));
  for (const siblings of childrenOf.values()) siblings.sort(byBirth);
  const shown = isFiltering(filter) ? matching(runs, filter) : null;
  const rows = [];
  const stack = kept(roots, shown).reverse().map(([run, ...place]) => [run, 1, ...place]);
  while (stack.length > 0) {
    const [run, level, position, siblings] = stack.pop();
    const children = kept(childrenOf.get(run.run_id) ?? [], shown);
    const isOpen = children.length > 0 && !folded.has(run.run_id);
    rows.push({
      run, level, position, siblings, isOpen,
      isParent: children.length > 0,
      matches: shown === null || shown.get(run.run_id) === true,
    });
    if (isOpen) for (const [child, ...place] of children.reverse()) stack.push([child, level + 1, ...place]);
  }
  return rows;
}

export function isFiltering(filter) {
  return Object.values(filter).some((value) => value !== "");
}

// By run id: true for a match, false for one that only leads to a match below it.
function matching(runs, filter) {
  const byId = new Map(runs.map((run) => [run.run_id, run]));
  const found = new Map();
  for (const run of runs) {
    if (!passes(run, filter)) continue;
    found.set(run.run_id, true);
    let above = byId.get(run.parent_id);
    while (above !== undefined && !found.has(above.run_id)) {
      found.set(above.run_id, false);
      above = byId.get(above.parent_id);
    }
  }
  return found;
}

function passes(run, { text, agent, state, session }) {
  if (agent !== ANY && run.agent !== agent) return false;
  if (state === NEEDS_HUMAN ? !run.pending : state !== ANY && run.state !== state) return false;
  if (!has(run.session_id, session)) return false;
  return [run.agent, run.run_id, run.session_id, run.phase, run.queue, run.worker].some((word) => has(word, text));
}

function has(text, part) {
  return part === "" || String(text ?? "").toLowerCase().includes(part.toLowerCase());
}

function kept(runs, shown) {
  const left = shown === null ? runs : runs.filter((run) => shown.has(run.run_id));
  return left.map((run, index) => [run, index + 1, left.length]);
}

function byBirth(one, other) {
  return one.created_at - other.created_at || compare(one.path ?? "", other.path ?? "") || compare(one.run_id, other.run_id);
}

function compare(one, other) {
  return one < other ? -1 : one > other ? 1 : 0;
}
