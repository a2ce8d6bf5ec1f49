// What a button does: once at a time, and with its outcome said where it was pressed.

import { announce, el, setText } from "./dom.js";

/** A line that says what came of an action. */
export class Outcome {
  element = el("p", { class: "outcome", hidden: true });

  say(text, kind = "done") {
    this.element.dataset.kind = kind;
    setText(this.element, text);
    this.element.hidden = text === "";
    if (text) announce(text);
  }

  fail(fault) {
    this.say(fault.mend ? `${closed(fault.message)} ${closed(capital(fault.mend))}` : fault.message, "failed");
  }
}

/**
 * Runs an action with its buttons off meanwhile.
 *
 * @param {Array<HTMLButtonElement>} buttons
 * @param {Outcome} outcome
 * @param {() => Promise<string|void>} action gives what is to be said
 */
export async function doing(buttons, outcome, action) {
  for (const button of buttons) button.disabled = true;
  outcome.say("");
  try {
    outcome.say((await action()) ?? "");
  } catch (fault) {
    if (fault.name !== "ApiError") throw fault;
    outcome.fail(fault);
  } finally {
    for (const button of buttons) button.disabled = false;
  }
}

function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function closed(text) {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}
