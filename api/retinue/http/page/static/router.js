// Where one is, in the address: #/runs, #/runs/<id>, #/workers, #/dead-letters. So a view can be linked to.

import { decoded } from "./session.js";

export class Router {
  constructor() {
    this.onChange = () => {};
    window.addEventListener("hashchange", () => this.onChange(this.place));
  }

  /** @returns {{view: string, runId: string|null}} */
  get place() {
    const [view, id] = location.hash.replace(/^#\/?/, "").split("/");
    const isKnown = ["runs", "workers", "dead-letters"].includes(view);
    return { view: isKnown ? view : "runs", runId: view === "runs" && id ? decoded(id) : null };
  }

  go(view, runId = null) {
    location.hash = runId === null ? `#/${view}` : `#/${view}/${encodeURIComponent(runId)}`;
  }
}
