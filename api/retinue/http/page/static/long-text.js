// A text that may be long: cut in height until one asks for all of it.

import { el } from "./dom.js";

const SHOWN_CHARS = 1_500;
const SHOWN_LINES = 14;

export function longText(text, className = "") {
  const shown = String(text ?? "");
  const body = el("div", { class: `long-text ${className}`, text: shown });
  if (shown.length <= SHOWN_CHARS && shown.split("\n", SHOWN_LINES + 1).length <= SHOWN_LINES) return body;
  body.classList.add("is-cut");
  const more = el("button", { type: "button", class: "link-button", text: "Show all", "aria-expanded": "false" });
  more.addEventListener("click", () => {
    const isCut = body.classList.toggle("is-cut");
    more.textContent = isCut ? "Show all" : "Show less";
    more.setAttribute("aria-expanded", String(!isCut));
  });
  return el("div", {}, body, more);
}
