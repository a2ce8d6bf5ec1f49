// Server-sent events read by fetch, since EventSource cannot send a key. Resumes where it stopped.

import { ApiError } from "./api.js";
import { BackOff, pause } from "./pause.js";

// The server sends a comment at least every 15 s; silence for longer means a dead connection.
const SILENCE_MS = 45_000;

/**
 * Follows a stream until its end, over as many connections as that takes.
 *
 * @param {import("./api.js").Api} api
 * @param {string} path
 * @param {AbortSignal} signal ends it
 * @param {object} to `event({id, type, data})`, `state("open"|"lost"|"ended"|"refused", fault)`;
 *     `isLast(event)` says whether nothing comes after this one; `isOver()` whether anything may come at all,
 *     which is asked when a connection has closed.
 */
export async function follow(api, path, signal, to) {
  const backOff = new BackOff();
  let lastId = null;
  let isOver = false;
  while (!signal.aborted && !isOver) {
    try {
      for await (const event of connection(api, path, lastId, signal, () => to.state("open"))) {
        backOff.reset();
        lastId = event.id || lastId;
        to.event(event);
        isOver ||= to.isLast(event);
      }
    } catch (fault) {
      if (signal.aborted) return;
      if (fault instanceof ApiError && !fault.passes) {
        to.state("refused", fault);
        return;
      }
    }
    isOver ||= to.isOver();
    if (signal.aborted || isOver) break;
    to.state("lost");
    await pause(backOff.next(), signal);
  }
  if (!signal.aborted) to.state("ended");
}

async function* connection(api, path, lastId, signal, onOpen) {
  const ours = new AbortController();
  const stop = () => ours.abort();
  signal.addEventListener("abort", stop);
  let watchdog = setTimeout(stop, SILENCE_MS);
  try {
    const headers = { Accept: "text/event-stream", ...(lastId === null ? {} : { "Last-Event-ID": lastId }) };
    const answer = await api.fetch(path, { headers, signal: ours.signal });
    onOpen();
    // No content: the last event has been had.
    if (answer.status === 204) return yield { id: "", type: "end", data: "{}" };
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new Parser();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      clearTimeout(watchdog);
      watchdog = setTimeout(stop, SILENCE_MS);
      yield* parser.feed(value);
    }
  } finally {
    clearTimeout(watchdog);
    signal.removeEventListener("abort", stop);
    stop();
  }
}

/** Takes the stream's text in pieces and gives the events that are whole. */
export class Parser {
  #rest = "";
  #fields = { id: "", type: "", data: [] };

  *feed(text) {
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop();
    for (const line of lines) {
      if (line === "") {
        const { id, type, data } = this.#fields;
        this.#fields = { id: "", type: "", data: [] };
        if (data.length > 0) yield { id, type: type || "message", data: data.join("\n") };
      } else this.#line(line);
    }
  }

  #line(line) {
    const [, name, value] = /^([^:]*):? ?(.*)$/s.exec(line);
    if (name === "id") this.#fields.id = value;
    else if (name === "event") this.#fields.type = value;
    else if (name === "data") this.#fields.data.push(value);
  }
}
