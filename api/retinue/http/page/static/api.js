// Requests to /v1 with the key in a header. Problems (RFC 9457) become ApiError.

import { parseExact } from "./exact.js";

const LIMIT_MS = 20_000;
const STATUS_NONE = 0;

/** Why a request was not done. `status` 0 = nobody answered. */
export class ApiError extends Error {
  constructor(status, code, message, { mend = null, retryAfterS = null } = {}) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.code = code;
    this.mend = mend;
    this.retryAfterS = retryAfterS;
  }

  /** Whether the service is away or overloaded, so that the same request may do later. */
  get passes() {
    return this.status === STATUS_NONE || this.status === 429 || this.status >= 500;
  }
}

export class Api {
  /** @param {string} key */
  constructor(key) {
    this.key = key;
    this.onUnauthenticated = () => {};
  }

  get(path, options) {
    return this.send("GET", path, undefined, options);
  }

  /** As get(), but with numbers that do not fit a double kept as they are written. */
  async getExact(path) {
    const answer = await this.fetch(path, { signal: AbortSignal.timeout(LIMIT_MS) });
    return whole(async () => parseExact(await answer.text()));
  }

  /** @param {object} [options] `once`: a repeat of the same call must not do it twice. */
  post(path, body = {}, { once = false } = {}) {
    return this.send("POST", path, body, { headers: once ? { "Idempotency-Key": randomKey() } : {} });
  }

  delete(path) {
    return this.send("DELETE", path);
  }

  /** Sends a request and gives the JSON answer, or null for an empty one. */
  async send(method, path, body, { headers = {}, signal } = {}) {
    const answer = await this.fetch(path, {
      method,
      headers: body === undefined ? headers : { ...headers, "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: signal ?? AbortSignal.timeout(LIMIT_MS),
    });
    if (answer.status === 204) return null;
    return whole(() => answer.json());
  }

  /** A response whose status is good. */
  async fetch(path, options = {}) {
    let answer;
    try {
      answer = await fetch(address(path), {
        cache: "no-store",
        credentials: "omit",
        redirect: "error",
        ...options,
        headers: { Authorization: `Bearer ${this.key}`, ...options.headers },
      });
    } catch (fault) {
      if (fault.name === "AbortError") throw fault;
      throw new ApiError(STATUS_NONE, "NO_ANSWER", "The API does not answer.");
    }
    if (answer.ok) return answer;
    const problem = await problemOf(answer);
    if (answer.status === 401) this.onUnauthenticated(problem);
    throw problem;
  }
}

/** An address of the service, wherever it is mounted. */
export function address(path) {
  return new URL(path.replace(/^\//, ""), document.baseURI);
}

/** A path below /v1, with each part escaped. */
export function v1(...parts) {
  return `/v1/${parts.map(encodeURIComponent).join("/")}`;
}

async function whole(read) {
  try {
    return await read();
  } catch {
    throw new ApiError(STATUS_NONE, "BROKEN_ANSWER", "The answer was cut off.");
  }
}

async function problemOf(answer) {
  const told = await answer.json().catch(() => ({}));
  const what = told.detail || told.title || `The API answered ${answer.status}`;
  const text = told.field ? `${told.field}: ${what}` : what;
  return new ApiError(answer.status, told.code ?? "", String(text), {
    mend: told.mend ?? null,
    retryAfterS: Number(answer.headers.get("Retry-After")) || null,
  });
}

// crypto.randomUUID is there on secure origins alone.
function randomKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
