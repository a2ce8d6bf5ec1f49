// Arguments as they will be passed: nothing rounded, and everything that would deceive the eye written out.

// Characters that change how others are shown, or are not shown at all.
const UNSEEN = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0]/g;

/** JSON whose long numbers are shown, and sent, digit by digit as they came. */
export function parseExact(text) {
  const keep = (_name, value, context) => {
    const isChanged = typeof value === "number" && context?.source !== undefined && String(value) !== context.source;
    return isChanged && JSON.rawJSON ? JSON.rawJSON(context.source) : value;
  };
  return JSON.parse(text, keep);
}

/** A value of parseExact() as a text. */
export function exact(value) {
  return JSON.stringify(value, null, 2).replace(UNSEEN, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Arguments as a model wrote them: JSON unless they are cut or wrong. */
export function exactText(text) {
  try {
    return exact(parseExact(text));
  } catch {
    return text;
  }
}
