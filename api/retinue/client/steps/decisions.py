"""Decisions on what a run asks of a human: where they lead, what may be said. Pure: both facades share it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from pydantic import JsonValue

from retinue.client.scope import Target
from retinue.client.steps.steering import checked_reason
from retinue.contract import (
    SubagentDecision,
    SubagentLifecycleError,
    WaitUntil,
    parse_request_id,
    partition_of_run,
)
from retinue.contract.canonical import json_object
from retinue.contract.checks import encoding_fault
from retinue.store.call import RunKey, ScriptCall
from retinue.store.operations import asking
from retinue.store.operations.asking import DecisionReply

_ENCODABLE: Final = "text that can be written as UTF-8, without NUL"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request is decided.

    Args:
        run: The one that asks, if the id is right.
        slot: Its call.
        above: The run of the handle.
        decision_id: A fresh id of the decision: 96 random bits.
    """

    run: RunKey
    slot: str
    above: str
    decision_id: str


Decide = Callable[[Place], ScriptCall[DecisionReply]]
"""Makes the store's call for one decision."""


def place_of(target: Target, request_id: object) -> Place | None:
    """Where a request id leads to; None = nowhere below the handle's run."""
    found = parse_request_id(request_id)
    if found is None:
        return None
    run_id, slot = found
    above = target.key.run_id
    # A tree lives in one partition; whether the run is below the handle's, the store tells.
    if partition_of_run(run_id) != partition_of_run(above):
        return None
    return Place(RunKey(target.key.tenant, run_id), slot, above, secrets.token_hex(12))


def approval(place: Place) -> ScriptCall[DecisionReply]:
    """The call that approves."""
    return asking.approve(place.run, above=place.above, slot=place.slot, decision_id=place.decision_id)


def checked_denial(reason: object) -> str:
    """The reason of a denial, cut to its limit.

    Raises:
        SubagentLifecycleError: it is no text, or none that a model can read.
    """
    return _readable("reason", checked_reason(reason))


def denial(reason: object) -> Decide:
    """The call that denies.

    Args:
        reason: Its first 500 characters are kept.

    Raises:
        SubagentLifecycleError: as `checked_denial`.
    """
    text = checked_denial(reason)
    return lambda place: asking.deny(
        place.run, above=place.above, slot=place.slot, decision_id=place.decision_id, reason=text
    )


def checked_value(value: object, *, max_bytes: int) -> JsonValue:
    """An answer as plain JSON values.

    Args:
        max_bytes: as for `reply`; of a text only `reply` checks it.

    Raises:
        SubagentLifecycleError: it has no such form.
    """
    if isinstance(value, str):
        return _readable("value", value)
    # Counted there as ASCII, where a character has at most six times as many bytes.
    plain = json_object(max_bytes=6 * max_bytes)("value", {"value": value})
    return cast("dict[str, JsonValue]", plain)["value"]


def reply(value: object, *, max_bytes: int) -> Decide:
    """The call that answers.

    Args:
        value: A text, or JSON values, which the model reads as JSON.
        max_bytes: Longest answer, in bytes of UTF-8.

    Raises:
        SubagentLifecycleError: it is neither, or too long.
    """
    plain = checked_value(value, max_bytes=max_bytes)
    text = plain if isinstance(plain, str) else _readable("value", json.dumps(plain, ensure_ascii=False))
    size = len(text.encode())
    if size > max_bytes:
        raise SubagentLifecycleError(
            f"has {size:,} bytes",
            field="value",
            limit=f"{max_bytes:,} bytes of UTF-8 (the setting tool_result_max_bytes)",
            mend="store the rest elsewhere and answer with its place",
        )
    return lambda place: asking.answer(
        place.run, above=place.above, slot=place.slot, decision_id=place.decision_id, value=text
    )


def decision_of(reply: DecisionReply) -> SubagentDecision:
    """What became of a decision."""
    return SubagentDecision(accepted=reply.refused is None, reason=reply.refused)


def checked_until(value: object) -> WaitUntil:
    """What a wait waits for.

    Raises:
        SubagentLifecycleError: it is no such word.
    """
    try:
        return WaitUntil(str(value))
    except ValueError:
        words = ", ".join(WaitUntil)
        raise SubagentLifecycleError(
            "is nothing to wait for", field="until", limit=f"one of {words}", mend="leave it out for the end"
        ) from None


def _readable(field: str, text: str) -> str:
    wrong = encoding_fault(text)
    if wrong is not None:
        raise SubagentLifecycleError(wrong, field=field, limit=_ENCODABLE, mend="send other text")
    return text
