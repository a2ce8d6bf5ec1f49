// What stands around every view: navigation, readiness, who one is, and the way out.

import { Connection } from "./connection.js";
import { DeadLettersView } from "./dead-letters-view.js";
import { el, setAttribute } from "./dom.js";
import { LiveRuns } from "./live.js";
import { Readiness } from "./readiness.js";
import { Router } from "./router.js";
import { RunsView } from "./runs-view.js";
import { WorkersView } from "./workers-view.js";

const VIEWS = { runs: RunsView, workers: WorkersView, "dead-letters": DeadLettersView };
const LABELS = { runs: "Runs", workers: "Workers", "dead-letters": "Dead letters" };

export class Shell {
  #ends = new AbortController();
  #view = null;
  #name = null;

  /**
   * @param {HTMLElement} root
   * @param {import("./api.js").Api} api
   * @param {object} caller what /v1/whoami told
   * @param {() => void} onLogout
   */
  constructor(root, api, caller, onLogout) {
    const isAdmin = caller.scopes.includes("admin");
    this.connection = new Connection();
    this.router = new Router();
    this.readiness = new Readiness(api.key);
    const live = new LiveRuns(api, this.connection);
    this.context = {
      api, live, router: this.router, isAdmin,
      mayWrite: isAdmin || caller.scopes.includes("run:write"),
      open: (runId) => this.router.go("runs", runId),
    };
    this.links = Object.entries(LABELS)
      // Workers and dead letters are an administrator's.
      .filter(([name]) => name === "runs" || isAdmin)
      .map(([name, text]) => el("a", { href: `#/${name}`, text, data: { view: name } }));
    this.main = el("main", { id: "main", tabindex: -1 });
    const whose = [caller.name || caller.key_id, caller.tenant === "_" ? "" : caller.tenant].filter((word) => word).join(" · ");
    root.replaceChildren(
      el("header", { class: "bar" },
        el("p", { class: "brand", text: "Retinue" }),
        el("nav", { "aria-label": "Views" }, ...this.links),
        el("div", { class: "bar-end" }, this.readiness.element,
          el("span", { class: "whose quiet", title: `Scopes: ${caller.scopes.join(", ")}`, text: whose }),
          el("button", { type: "button", class: "button is-small", text: "Log out", on: { click: onLogout } }))),
      this.main);
    this.router.onChange = (place) => this.#show(place);
    live.keepUp(this.#ends.signal);
    this.readiness.keepUp(this.#ends.signal);
    this.#show(this.router.place);
  }

  close() {
    this.#ends.abort();
    this.#view?.close();
    this.router.onChange = () => {};
    this.connection.hide();
  }

  #show({ view, runId }) {
    const name = view === "runs" || this.context.isAdmin ? view : "runs";
    if (name !== this.#name) {
      this.#view?.close();
      this.#name = name;
      this.#view = new VIEWS[name](this.context);
      this.main.replaceChildren(this.#view.element);
      for (const link of this.links) setAttribute(link, "aria-current", link.dataset.view === name ? "page" : null);
    }
    if (name === "runs") this.#view.open(runId);
  }
}
