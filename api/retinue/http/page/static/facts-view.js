// How the run stands, in figures.

import { now } from "./clock.js";
import { el, keyed, setAttribute, setText } from "./dom.js";
import { count, day, NOTHING, span, usd } from "./format.js";

export class FactsView {
  element = el("dl", { class: "facts", "aria-label": "Figures" });

  /** @param {object|null} run its row in the tree, which knows queue and worker */
  show(status, run, hasEnded) {
    const { usage, tree_usage: all, handle, limits } = status;
    const left = !hasEnded && limits.deadline_at ? span(limits.deadline_at - now()) : null;
    const facts = [
      ["Iteration", limits.max_iterations ? `${status.iteration} of ${count(limits.max_iterations)}` : count(status.iteration)],
      ["Tokens", usage && `${count(usage.input_tokens)} in, ${count(usage.output_tokens)} out`],
      ["Cost", usage && usd(usage.cost_usd)],
      ["With all below", all && all.model_calls > usage?.model_calls && `${count(all.input_tokens + all.output_tokens)} tokens, ${usd(all.cost_usd)}`],
      ["Tool calls", usage && count(usage.tool_calls)],
      ["Model", [status.provider, status.model].filter((word) => word).join(" / ")],
      ["Queue", run?.queue],
      ["Worker", run?.worker],
      ["Session", handle?.parent_session_id],
      ["Launched", handle && day(handle.created_at)],
      ["Deadline", left && `in ${left}`],
      ["Note", status.diagnostic],
    ].filter(([, value]) => value);
    keyed(this.element, facts, ([name]) => name,
      ([name]) => el("div", {}, el("dt", { text: name }), el("dd")),
      (pair, [, value]) => {
        setText(pair.lastElementChild, String(value ?? NOTHING));
        setAttribute(pair.lastElementChild, "title", String(value).length > 24 ? value : null);
      });
  }
}
