// Elements, made without markup: every text is put in as text, so none can become anything else.

/**
 * Makes an element.
 *
 * @param {string} tag
 * @param {object} [given] `text`, `on` (listeners by event), `data` (data-*); all else is an attribute.
 *     An attribute that is null, undefined or false is left out; true is an empty one.
 * @param {...(Node|string|null)} children
 */
export function el(tag, given = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (name === "text") made.textContent = value ?? "";
    else if (name === "on") for (const [event, run] of Object.entries(value)) made.addEventListener(event, run);
    else if (name === "data") Object.assign(made.dataset, value);
    else setAttribute(made, name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** Sets an attribute, or takes it away; touches nothing that is already so. ARIA's are never just there. */
export function setAttribute(element, name, value) {
  const isSwitch = typeof value === "boolean" && !name.startsWith("aria-");
  if (value === null || value === undefined || (isSwitch && !value)) element.removeAttribute(name);
  else {
    const text = isSwitch ? "" : String(value);
    if (element.getAttribute(name) !== text) element.setAttribute(name, text);
  }
}

/** Sets a text; touches nothing that is already so. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Makes a parent's children those of a list, keeping the elements of keys that stay.
 *
 * @param {Element} parent
 * @param {Array} items
 * @param {(item: any) => string} keyOf
 * @param {(item: any) => HTMLElement} make
 * @param {(element: HTMLElement, item: any) => void} update
 */
export function keyed(parent, items, keyOf, make, update) {
  const keys = items.map(keyOf);
  const staying = new Set(keys);
  const before = new Map();
  // Those that go, go first: then those that stay need not be moved, which would cost them the focus.
  for (const child of [...parent.children]) {
    if (staying.has(child.dataset.key)) before.set(child.dataset.key, child);
    else child.remove();
  }
  let place = parent.firstElementChild;
  items.forEach((item, index) => {
    let child = before.get(keys[index]);
    if (child === undefined) {
      child = make(item);
      child.dataset.key = keys[index];
    }
    update(child, item);
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
  });
}

const announcer = () => document.getElementById("announcer");

/** Says something to a screen reader, once what it reads now is done. */
export function announce(text) {
  setText(announcer(), "");
  requestAnimationFrame(() => setText(announcer(), text));
}
