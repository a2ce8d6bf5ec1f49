// The API key: it lives in this tab's session storage, and nowhere else.

const NAME = "retinue.key";
const FRAGMENT = /^#key=(.+)$/;

/** The key of this tab, or null. One that came in the address is taken out of it at once. */
export function readKey() {
  const given = FRAGMENT.exec(location.hash);
  if (given !== null) {
    history.replaceState(null, "", location.pathname + location.search);
    keepKey(decoded(given[1]));
  }
  return sessionStorage.getItem(NAME);
}

export function keepKey(key) {
  sessionStorage.setItem(NAME, key);
}

export function dropKey() {
  sessionStorage.removeItem(NAME);
}

/** A part of an address as it was before it was escaped, or as it stands if it never was. */
export function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
