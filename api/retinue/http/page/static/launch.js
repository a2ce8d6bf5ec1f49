// The form that starts a run.

import { openDialog } from "./dialog.js";
import { doing, Outcome } from "./doing.js";
import { el } from "./dom.js";
import { allOf } from "./pages.js";

/**
 * @param {import("./api.js").Api} api
 * @param {string} session suggested
 * @param {(runId: string) => void} onLaunched
 */
export async function openLaunch(api, session, onLaunched) {
  const outcome = new Outcome();
  const names = el("select", { id: "launch-agent" }, el("option", { value: "", text: "Loading" }));
  const about = el("p", { class: "quiet small" });
  const goal = el("textarea", { id: "launch-goal", rows: 5, required: true, placeholder: "What is to be done" });
  const owner = el("input", { id: "launch-session", type: "text", required: true, value: session || "page", autocomplete: "off", spellcheck: "false" });
  const send = el("button", { type: "submit", class: "button is-primary", text: "Launch" });
  const dialog = el("dialog", { class: "dialog is-wide", "aria-labelledby": "launch-title" },
    el("form", { on: { submit: launch } },
      el("h2", { id: "launch-title", text: "Launch a run" }),
      el("label", { class: "field" }, el("span", { text: "Agent" }), names), about,
      el("label", { class: "field" }, el("span", { text: "Goal" }), goal),
      el("label", { class: "field" }, el("span", { text: "Session" }), owner),
      outcome.element,
      el("div", { class: "dialog-actions" },
        el("button", { type: "button", class: "button", text: "Back", on: { click: () => dialog.close() } }), send)));
  openDialog(dialog);
  goal.focus();
  await doing([send], outcome, async () => offer(names, about, await allOf(api, "/v1/agents", "agents")));

  function launch(event) {
    event.preventDefault();
    const request = { session_id: owner.value, goal: goal.value, ...(names.value ? { agent: names.value } : {}) };
    return doing([send], outcome, async () => {
      const { run_id } = await api.post("/v1/runs", request, { once: true });
      dialog.close();
      onLaunched(run_id);
    });
  }
}

function offer(names, about, agents) {
  const told = new Map(agents.map((agent) => [agent.name, `${agent.live ? "" : "No live worker can run it now. "}${agent.description}`]));
  const choices = [...told.keys()].sort().map((name) => el("option", { value: name, text: name }));
  names.replaceChildren(...choices, el("option", { value: "", text: "The default agent" }));
  const tell = () => {
    about.textContent = told.get(names.value) ?? "Generic instructions, with your goal.";
  };
  names.addEventListener("change", tell);
  tell();
}
