// Numbers and times as they are shown.

const COUNT = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const NOTHING = "–";

export function count(value) {
  return Number.isFinite(value) ? COUNT.format(value) : NOTHING;
}

/** 950, 12.3K, 4.5M */
export function short(value) {
  return Number.isFinite(value) ? (value < 10_000 ? COUNT.format(value) : SHORT.format(value)) : NOTHING;
}

/** An amount of money; small ones with as many digits as they need. null = not known. */
export function usd(value) {
  if (!Number.isFinite(value)) return NOTHING;
  if (value === 0) return "$0";
  return `$${value.toFixed(value < 0.01 ? 5 : value < 1 ? 4 : 2)}`;
}

/** A time span in seconds: 0.42 s, 12 s, 3 m 05 s, 2 h 10 m, 3 d 4 h */
export function span(seconds) {
  if (!Number.isFinite(seconds)) return NOTHING;
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${two(whole % 60)}s`;
  if (whole < 86_400) return `${Math.floor(whole / 3600)}h ${two(Math.floor((whole % 3600) / 60))}m`;
  return `${Math.floor(whole / 86_400)}d ${Math.floor((whole % 86_400) / 3600)}h`;
}

/** A measured duration, in milliseconds. */
export function duration(ms) {
  if (!Number.isFinite(ms)) return NOTHING;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : span(ms / 1000);
}

/** The time of day of an ISO text or of epoch seconds. */
export function clock(at) {
  const date = new Date(typeof at === "number" ? at * 1000 : at);
  return Number.isNaN(date.getTime()) ? NOTHING : CLOCK.format(date);
}

export function day(at) {
  const date = new Date(at * 1000);
  return Number.isNaN(date.getTime()) ? NOTHING : date.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
}

/** JSON as a person reads it; texts that are no JSON stay as they are. */
export function pretty(value) {
  if (typeof value === "string") {
    try {
      value = JSON.parse(value);
    } catch {
      return value;
    }
  }
  return JSON.stringify(value, null, 2) ?? "";
}

/** waiting_children -> waiting children */
export function words(text) {
  return String(text ?? "").replaceAll("_", " ");
}

/** sa-p07-abcdef… : the run id's telling end */
export function shortId(id) {
  const text = String(id ?? "");
  return text.length > 16 ? `${text.slice(0, 15)}…` : text;
}

function two(value) {
  return String(value).padStart(2, "0");
}
