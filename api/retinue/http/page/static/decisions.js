// What the run, and those below it, ask a human: the exact call, and the buttons to decide it.

import { now } from "./clock.js";
import { doing, Outcome } from "./doing.js";
import { el, keyed, setText } from "./dom.js";
import { exact } from "./exact.js";
import { span } from "./format.js";

const REFUSALS = {
  unknown: "That request is not there any more.",
  decided: "Somebody decided it before.",
  expired: "It expired, which denied it.",
  cancelled: "The run is cancelled.",
  ended: "The run has ended.",
  wrong_kind: "That decision does not fit the request.",
};

export class Decisions {
  #list = el("div", { class: "decision-list" });
  #outcome = new Outcome();
  element = el("section", { class: "decisions", "aria-label": "Waits for a human", hidden: true },
    el("h3", { text: "Waits for a human" }), this.#list, this.#outcome.element);

  constructor(context) {
    this.context = context;
  }

  show(requests) {
    this.element.hidden = requests.length === 0 && this.#outcome.element.hidden;
    keyed(this.#list, requests, (request) => request.request_id, (request) => this.#card(request), (card, request) => {
      setText(card.expires, `expires in ${span(request.expires_at - now())}`);
    });
  }

  #card(request) {
    const isApproval = request.kind === "approval";
    const expires = el("span", { class: "quiet" });
    const card = el("article", { class: "decision", "aria-label": isApproval ? `Approve ${request.tool}` : `Answer ${request.agent}` },
      el("p", { class: "decision-what" },
        el("strong", { text: request.agent }), isApproval ? " wants to call " : " asks by ",
        el("code", { text: request.tool }), isApproval ? " with exactly:" : ":"),
      el("pre", { class: "arguments", tabindex: 0, "aria-label": "Arguments", text: exact(request.arguments) }),
      el("p", { class: "decision-more small" }, expires,
        el("span", { class: "quiet", title: request.argument_hash, text: `SHA-256 ${request.argument_hash.slice(0, 12)}…` })));
    card.expires = expires;
    if (this.context.mayWrite) card.append(isApproval ? this.#approval(request) : this.#answer(request));
    return card;
  }

  #approval(request) {
    const reason = el("input", { type: "text", "aria-label": "Reason for the denial", placeholder: "Reason, which the model reads (optional)", maxlength: 500, autocomplete: "off" });
    const approve = el("button", { type: "button", class: "button is-primary", text: "Approve" });
    const deny = el("button", { type: "submit", class: "button is-danger-quiet", text: "Deny" });
    const both = [approve, deny];
    approve.addEventListener("click", () => this.#decide(both, "approve", { request_id: request.request_id }, "Approved."));
    return el("form", {
      class: "decide",
      on: {
        submit: (event) => {
          event.preventDefault();
          const body = { request_id: request.request_id, ...(reason.value.trim() ? { reason: reason.value.trim() } : {}) };
          this.#decide(both, "deny", body, "Denied.");
        },
      },
    }, approve, el("span", { class: "deny-with" }, reason, deny));
  }

  #answer(request) {
    const field = el("textarea", { rows: 2, "aria-label": "Answer", placeholder: "Answer" });
    const send = el("button", { type: "submit", class: "button is-primary", text: "Send answer" });
    return el("form", {
      class: "compose",
      on: {
        submit: (event) => {
          event.preventDefault();
          if (field.value.trim() === "") return field.focus();
          this.#decide([send], "answer", { request_id: request.request_id, value: field.value }, "Answered.");
        },
      },
    }, field, send);
  }

  #decide(buttons, how, body, done) {
    return doing(buttons, this.#outcome, async () => {
      const { accepted, reason } = await this.context.api.post(`${this.context.path}/${how}`, body);
      this.context.changed();
      return accepted ? done : (REFUSALS[reason] ?? "It was not accepted.");
    });
  }
}
