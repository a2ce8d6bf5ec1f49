// Asks for the API key.

import { Api, ApiError } from "./api.js";
import { doing, Outcome } from "./doing.js";
import { el } from "./dom.js";

/**
 * @param {HTMLElement} root
 * @param {string} why said above the form; "" = nothing
 * @param {(key: string, caller: object) => void} onKey a key that the API takes
 */
export function showLogin(root, why, onKey) {
  const outcome = new Outcome();
  const field = el("input", { type: "password", autocomplete: "off", required: true, spellcheck: "false", id: "key" });
  const button = el("button", { type: "submit", class: "button is-primary", text: "Open" });
  const form = el("form", { class: "login" },
    el("h1", { text: "Retinue" }),
    el("p", { class: "quiet", text: "Watch and steer the runs of your agents." }),
    el("label", { class: "field" }, el("span", { text: "API key" }), field),
    outcome.element,
    button,
    el("p", { class: "quiet small" }, "Made with ", el("code", { text: "retinue keys create" }),
      ". It stays in this tab until you close it or log out."));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const key = field.value.trim();
    doing([button], outcome, async () => onKey(key, await callerOf(key)));
  });
  root.replaceChildren(el("main", { class: "login-page" }, form));
  if (why) outcome.say(why, "failed");
  field.focus();
}

/** Who a key belongs to. Throws an ApiError if the API does not take it. */
export async function callerOf(key) {
  // Others cannot stand in a header at all, which fetch reports as if nobody had answered.
  if (!/^[\x21-\x7e]+$/.test(key)) throw new ApiError(401, "UNAUTHENTICATED", "That is no API key.");
  try {
    return await new Api(key).get("/v1/whoami");
  } catch (fault) {
    if (fault.status !== 401) throw fault;
    throw new ApiError(401, fault.code, "The API does not take this key. It may be mistyped, revoked or of another service.");
  }
}
