"""The requests about one run, for each method of the facade: where it goes, and what its answer is. Pure.

A handle that is malformed or of another session is answered without asking the API.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

from retinue.client.facade.budgeting import checked_caps
from retinue.client.over_http.call import MUCH_S, Asked, Call, Known
from retinue.client.scope import Scope
from retinue.client.steps import decisions, steering
from retinue.contract import (
    Budget,
    BudgetRaise,
    Event,
    PendingRequest,
    SteerReceipt,
    SubagentCancelResult,
    SubagentDecision,
    SubagentHandle,
    SubagentLifecycleError,
    SubagentPurgeResult,
    SubagentReconnectResult,
    SubagentResult,
    SubagentStatus,
)
from retinue.contract.checks import type_fault

T = TypeVar("T")

EVENTS_A_READ = 200
_ANSWER_MAX_BYTES = 16_000_000
"""What is not even sent; the API's own limit is the setting tool_result_max_bytes."""


@dataclass(frozen=True, slots=True)
class EventPage:
    """A part of a log, and the place that it reaches to: where it was before, nothing is left."""

    events: tuple[Event, ...]
    reaches: int


def path_of(handle: SubagentHandle, *below: str) -> str:
    """Where a run lies, or something of it."""
    return "/".join((f"/v1/runs/{handle.subagent_id}", *(quote(part, safe="") for part in below)))


def status(scope: Scope, handle: object) -> Asked[SubagentStatus]:
    """Mirrors `SubagentLifecycle.status`."""
    return _read(scope, handle, (), SubagentStatus.from_dict, SubagentStatus.unknown)


def status_by_id(run_id: str) -> Call[SubagentStatus]:
    """How a run of the key's tenant stands, of whatever session."""
    return Call(
        method="GET",
        path=f"/v1/runs/{run_id}",
        parse=SubagentStatus.from_dict,
        unknown=SubagentStatus.unknown,
    )


def result(scope: Scope, handle: object) -> Asked[SubagentResult]:
    """Mirrors `SubagentLifecycle.result`."""
    return _read(scope, handle, ("result",), SubagentResult.from_dict, SubagentResult.unknown)


def full_text(scope: Scope, handle: object) -> Asked[str | None]:
    """Mirrors `SubagentLifecycle.full_text`."""

    def text_in(body: Any) -> str | None:
        return body["text"]

    return _read(scope, handle, ("text",), text_in, lambda _: None)


def reconnect(scope: Scope, handle: object) -> Asked[SubagentReconnectResult]:
    """Mirrors `SubagentLifecycle.reconnect`."""
    parse = SubagentReconnectResult.from_dict
    return _read(scope, handle, ("reconnect",), parse, SubagentReconnectResult.unknown)


def pending(scope: Scope, handle: object) -> Asked[tuple[PendingRequest, ...]]:
    """Mirrors `SubagentLifecycle.pending`."""

    def requests_in(body: Any) -> tuple[PendingRequest, ...]:
        return tuple(map(PendingRequest.from_dict, body["requests"]))

    return _read(scope, handle, ("pending",), requests_in, lambda _: ())


def events(handle: SubagentHandle, after: int) -> Call[EventPage]:
    """A part of the log of a run's tree."""

    def page_in(body: Any) -> EventPage:
        return EventPage(tuple(map(Event.from_dict, body["events"])), int(body["next_after"]))

    return Call(
        method="GET",
        path=path_of(handle, "events"),
        query={"after": after, "limit": EVENTS_A_READ},
        handle=handle,
        parse=page_in,
        unknown=lambda: EventPage((), after),
    )


def send_steer(scope: Scope, handle: object, text: object, steer_id: str | None) -> Asked[SteerReceipt]:
    """Mirrors `SubagentLifecycle.send_steer`."""
    message = steering.checked_text(text)
    name = steering.new_steer_id() if steer_id is None else steering.checked_steer_id(steer_id)
    if name in (".", ".."):
        raise SubagentLifecycleError(
            "cannot stand in an address",
            field="steer_id",
            limit="neither . nor ..",
            mend="leave it out to get a fresh one",
        )
    body = {"text": message, "steer_id": name}
    return _act(scope, handle, "steers", body, SteerReceipt.from_dict, SteerReceipt.unknown)


def steer_status(scope: Scope, handle: object, steer_id: object) -> Asked[SteerReceipt]:
    """Mirrors `SubagentLifecycle.steer_status`."""
    try:
        name = steering.checked_steer_id(steer_id)
    except SubagentLifecycleError:
        return Known(SteerReceipt.unknown(handle))
    return _read(scope, handle, ("steers", name), SteerReceipt.from_dict, SteerReceipt.unknown)


def cancel(scope: Scope, handle: object, reason: object) -> Asked[SubagentCancelResult]:
    """Mirrors `SubagentLifecycle.cancel`."""
    return _stop(scope, handle, "cancel", reason)


def interrupt(scope: Scope, handle: object, reason: object) -> Asked[SubagentCancelResult]:
    """Mirrors `SubagentLifecycle.interrupt`."""
    return _stop(scope, handle, "interrupt", reason)


def approve(scope: Scope, handle: object, request_id: object) -> Asked[SubagentDecision]:
    """Mirrors `SubagentLifecycle.approve`."""
    return _decide(scope, handle, "approve", request_id, {})


def deny(scope: Scope, handle: object, request_id: object, reason: object) -> Asked[SubagentDecision]:
    """Mirrors `SubagentLifecycle.deny`."""
    return _decide(scope, handle, "deny", request_id, {"reason": decisions.checked_denial(reason)})


def answer(scope: Scope, handle: object, request_id: object, value: object) -> Asked[SubagentDecision]:
    """Mirrors `SubagentLifecycle.answer`."""
    plain = decisions.checked_value(value, max_bytes=_ANSWER_MAX_BYTES)
    return _decide(scope, handle, "answer", request_id, {"value": plain})


def raise_budget(scope: Scope, handle: object, caps: dict[str, object]) -> Asked[BudgetRaise]:
    """Mirrors `SubagentLifecycle.raise_budget`."""
    checked_caps(caps)
    made: Any = Budget(**caps)  # pyright: ignore[reportArgumentType] - each is checked by name
    body = {name: getattr(made, name) for name in caps if caps[name] is not None}
    return _act(scope, handle, "budget", body, BudgetRaise.from_dict, BudgetRaise.unknown)


def purge(scope: Scope, handle: object, conversation: object) -> Asked[SubagentPurgeResult]:
    """Mirrors `SubagentLifecycle.purge`."""
    found = scope.candidate(handle)
    if found is None:
        return Known(SubagentPurgeResult.unknown(handle))
    if not isinstance(conversation, bool):
        raise type_fault("conversation", conversation, "True or False")
    return Call(
        method="DELETE",
        path=path_of(found),
        query={"conversation": str(conversation).lower()},
        handle=found,
        parse=SubagentPurgeResult.from_dict,
        unknown=SubagentPurgeResult.unknown,
        gone=lambda: SubagentPurgeResult(purged=True),
        mutates=True,
        work_s=MUCH_S,
    )


def _stop(scope: Scope, handle: object, how: str, reason: object) -> Asked[SubagentCancelResult]:
    text = steering.checked_reason(reason)
    parse, unknown = SubagentCancelResult.from_dict, SubagentCancelResult.unknown
    return _act(scope, handle, how, {"reason": text} if text else {}, parse, unknown)


def _decide(
    scope: Scope, handle: object, how: str, request_id: object, body: dict[str, Any]
) -> Asked[SubagentDecision]:
    found = scope.candidate(handle)
    if found is None or decisions.place_of(scope.target(found), request_id) is None:
        return Known(SubagentDecision.unknown(handle))
    said = {"request_id": request_id, **body}
    return _act(scope, found, how, said, SubagentDecision.from_dict, SubagentDecision.unknown)


def _read(
    scope: Scope,
    handle: object,
    below: tuple[str, ...],
    parse: Callable[[Any], T],
    unknown: Callable[[object], T],
) -> Asked[T]:
    found = scope.candidate(handle)
    if found is None:
        return Known(unknown(handle))
    return Call(
        method="GET",
        path=path_of(found, *below),
        handle=found,
        parse=parse,
        unknown=lambda: unknown(found),
    )


def _act(
    scope: Scope,
    handle: object,
    how: str,
    body: dict[str, Any],
    parse: Callable[[Any], T],
    unknown: Callable[[object], T],
) -> Asked[T]:
    found = scope.candidate(handle)
    if found is None:
        return Known(unknown(handle))
    return Call(
        method="POST",
        path=path_of(found, how),
        body=body,
        handle=found,
        parse=parse,
        unknown=lambda: unknown(found),
        mutates=True,
    )
