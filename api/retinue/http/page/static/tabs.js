// Tabs as in the ARIA pattern: one tab stop, arrow keys, the panel follows.

import { el, setAttribute } from "./dom.js";

let made = 0;

/**
 * @param {string} label of the list of tabs
 * @param {Array<{name: string, panel: HTMLElement}>} given
 */
export function tabs(label, given) {
  const group = `tabs${++made}`;
  const buttons = given.map(({ name }, index) =>
    el("button", {
      type: "button", role: "tab", id: `${group}-${index}`, "aria-controls": `${group}-panel-${index}`, text: name,
      on: { click: () => choose(index), keydown: (event) => onKey(event, index) },
    }));
  const panels = given.map(({ panel }, index) =>
    el("div", { role: "tabpanel", id: `${group}-panel-${index}`, "aria-labelledby": `${group}-${index}`, tabindex: 0 }, panel));

  function choose(index) {
    buttons.forEach((button, number) => {
      setAttribute(button, "aria-selected", number === index);
      setAttribute(button, "tabindex", number === index ? 0 : -1);
      panels[number].hidden = number !== index;
    });
  }

  function onKey(event, index) {
    const steps = { ArrowRight: 1, ArrowLeft: -1, Home: -index, End: buttons.length - 1 - index };
    if (!(event.key in steps)) return;
    const next = (index + steps[event.key] + buttons.length) % buttons.length;
    choose(next);
    buttons[next].focus();
    event.preventDefault();
  }

  choose(0);
  return el("div", { class: "tabs" }, el("div", { role: "tablist", class: "tab-list", "aria-label": label }, ...buttons), ...panels);
}
