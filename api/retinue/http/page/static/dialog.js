// Dialogs: a question that is confirmed, with a text if one is asked for. The browser keeps the focus inside.

import { el } from "./dom.js";

/**
 * Asks before something is done.
 *
 * @param {object} question `title`, `text`, `action` (the button's words), `isDangerous`,
 *     `input`: the label of a text that goes with it, or none
 * @returns {Promise<string|null>} the text, "" without one; null = not confirmed
 */
export function ask({ title, text, action, isDangerous = false, input = null }) {
  return new Promise((done) => {
    const field = input === null ? null : el("input", { type: "text", maxlength: 1000, autocomplete: "off" });
    const dialog = el("dialog", { class: "dialog", "aria-labelledby": "dialog-title", "aria-describedby": "dialog-text" },
      el("form", { method: "dialog" },
        el("h2", { id: "dialog-title", text: title }),
        el("p", { id: "dialog-text", text }),
        field && el("label", { class: "field" }, el("span", { text: input }), field),
        el("div", { class: "dialog-actions" },
          el("button", { type: "button", class: "button", text: "Back", on: { click: () => dialog.close() } }),
          el("button", { type: "submit", class: `button ${isDangerous ? "is-danger" : "is-primary"}`, value: "yes", text: action }))));
    openDialog(dialog, () => done(dialog.returnValue === "yes" ? (field?.value ?? "").trim() : null));
  });
}

/** Shows a dialog, closes it on Escape or a click beside it, and takes it out of the document. */
export function openDialog(dialog, onClose = () => {}) {
  const opener = document.activeElement;
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("close", () => {
    dialog.remove();
    opener?.focus?.();
    onClose();
  });
  document.body.append(dialog);
  dialog.showModal();
}
