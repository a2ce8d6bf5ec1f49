"""What a run asks of a human or of its parent's model: requests of a subtree, decisions, use of approvals."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from pydantic import JsonValue

from retinue.contract import Audience, DecisionRefusal, PendingRequest, RequestKind, request_id
from retinue.store.call import RunKey, ScriptCall, on_run, text, unexpected
from retinue.store.record import WakeUp, parse_wake_up
from retinue.store.replies import Begun, Fence, NotApproved, Stale, Stopped, UsedBefore

ASKING_RUNS_A_READ = 100
"""Runs whose requests are read in one round trip."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that somebody is asked about, as it is kept until then.

    Args:
        kind: What is asked.
        tool: The tool's name.
        call_id: The model API's id of the call.
        arguments: The call's.
        argument_hash: SHA-256 of the arguments' canonical JSON, hex.
        to_parent: The model is asked that started the run in the background; where there is none, a human.
    """

    kind: RequestKind
    tool: str
    call_id: str
    arguments: Mapping[str, JsonValue] = field(repr=False)
    argument_hash: str
    to_parent: bool = False

    @property
    def entry(self) -> str:
        """What stands for it among the open entries of its run."""
        return f"{'question' if self.to_parent else self.kind}:{self.argument_hash}"

    def argv(self) -> tuple[str, str]:
        """Its tool, and the rest of its members, as `suspend` takes them."""
        rest = json.dumps({"call_id": self.call_id, "arguments": self.arguments}, separators=(",", ":"))
        return json.dumps(self.tool), rest[1:-1]


@dataclass(frozen=True, slots=True)
class DecisionReply:
    """What became of a decision: `refused` None = accepted. `wakeup` is owed to the run that asked."""

    refused: DecisionRefusal | None
    wakeup: WakeUp | None


@dataclass(frozen=True, slots=True)
class OpenRequests:
    """A part of a subtree's open requests: go on from `cursor` until it is empty."""

    cursor: str
    requests: tuple[PendingRequest, ...]


def read_requests(run: RunKey, *, cursor: str = "") -> ScriptCall[OpenRequests]:
    """What a run and its descendants ask now, parents first."""

    def parse(reply: Any) -> OpenRequests:
        cursor, *found = reply
        return OpenRequests(text(cursor), tuple(_pending(*(text(word) for word in words)) for words in found))

    return on_run("read_requests", run, (cursor, ASKING_RUNS_A_READ), parse)


def approve(run: RunKey, *, above: str, slot: str, decision_id: str) -> ScriptCall[DecisionReply]:
    """Lets the owner run a call, once.

    Args:
        run: The one that asks.
        above: The run by whose handle it is decided: the asking one or an ancestor.
        slot: The call.
        decision_id: The decision's identity: a repeat gets the first answer.
    """
    return _decided("decide", run, (above, slot, decision_id, "approve", '""', ""))


def deny(run: RunKey, *, above: str, slot: str, decision_id: str, reason: str) -> ScriptCall[DecisionReply]:
    """Answers a call with its refusal.

    Args:
        run, above, slot, decision_id: As for `approve`.
        reason: For the model and the event log; may be empty.
    """
    result = "[DENIED] A human refused this call."
    if reason:
        result = f"{result} Reason: {reason}"
    return _decided("decide", run, (above, slot, decision_id, "deny", json.dumps(reason), json.dumps(result)))


def answer(
    run: RunKey, *, above: str, slot: str, decision_id: str, value: str, by_model: bool = False
) -> ScriptCall[DecisionReply]:
    """Gives the result of a call that the caller is asked for.

    Args:
        run, above, slot, decision_id: As for `approve`.
        value: What the model reads, as text.
        by_model: The model of `above` answers: only what is asked of it, and never in a human's place.
    """
    by = Audience.PARENT.value if by_model else ""
    return _decided("answer", run, (above, slot, decision_id, json.dumps(value), by))


def begin_approved(
    run: RunKey, fence: Fence, operation: str, *, slot: str, argument_hash: str
) -> ScriptCall[Begun | UsedBefore | NotApproved | Stopped | Stale]:
    """Uses up the approval of a call, just before it is run.

    Args:
        argument_hash: Of the arguments that it is about to be run with.
    """

    def parse(reply: Any) -> Begun | UsedBefore | NotApproved | Stopped | Stale:
        match text(reply[0]):
            case "BEGUN":
                return Begun()
            case "USED":
                return UsedBefore()
            case "NOT_APPROVED":
                return NotApproved()
            case "STALE":
                return Stale()
            case "CANCEL" | "INTERRUPT" | "DEADLINE" as reason:
                return Stopped(reason)
            case _:
                raise unexpected("begin_approved", reply)

    argv = (fence.epoch, fence.token, operation, slot, argument_hash)
    return on_run("begin_approved", run, argv, parse)


_REFUSALS = {
    "UNKNOWN": DecisionRefusal.UNKNOWN,
    "ENDED": DecisionRefusal.ENDED,
    "CANCELLED": DecisionRefusal.CANCELLED,
    "DECIDED": DecisionRefusal.DECIDED,
    "EXPIRED": DecisionRefusal.EXPIRED,
    "KIND": DecisionRefusal.WRONG_KIND,
}


def _decided(name: str, run: RunKey, argv: tuple[str, ...]) -> ScriptCall[DecisionReply]:
    def parse(reply: Any) -> DecisionReply:
        head = text(reply[0])
        if head != "ACCEPTED" and head not in _REFUSALS:
            raise unexpected(name, reply)
        wakeup = parse_wake_up(run.tenant, reply[1]) if len(reply) > 1 else None
        return DecisionReply(_REFUSALS.get(head), wakeup)

    return on_run(name, run, argv, parse)


def _pending(run_id: str, agent: str, slot: str, request_json: str) -> PendingRequest:
    found = cast("dict[str, Any]", json.loads(request_json))
    return PendingRequest(
        request_id=request_id(run_id, slot),
        run_id=run_id,
        kind=RequestKind(found["kind"]),
        agent=agent,
        tool=found["tool"],
        arguments=found["arguments"],
        argument_hash=found["argument_hash"],
        call_id=found["call_id"],
        asked_at=found["asked_ms"] / 1000,
        expires_at=found["expires_ms"] / 1000,
        audience=Audience(found["audience"]),
    )
