"""Steering messages: which ones are taken, and what the store's answer means."""

from __future__ import annotations

import re
import secrets

from retinue.client.reading.answers import receipt_of
from retinue.contract import (
    REASON_MAX_CHARS,
    STEER_MAX_CHARS,
    ErrorCode,
    SteerReceipt,
    SteerState,
    SubagentLifecycleError,
)
from retinue.contract.checks import encoding_fault
from retinue.store.operations.control import SteerReply

_STEER_ID = re.compile(r"[A-Za-z0-9_.:-]{1,64}", re.ASCII)


def new_steer_id() -> str:
    """A fresh id: 96 random bits."""
    return secrets.token_hex(12)


def checked_steer_id(value: object) -> str:
    """The caller's own id of a message, by which a repetition is known.

    Raises:
        SubagentLifecycleError: It is not 1 to 64 letters, digits, ``_``, ``-``, ``.`` or ``:``.
    """
    if isinstance(value, str) and _STEER_ID.fullmatch(value):
        return value
    raise SubagentLifecycleError(
        "is no steer id",
        field="steer_id",
        limit="1 to 64 of A-Z a-z 0-9 _ - . :",
        mend="leave it out to get a fresh one",
    )


def checked_text(value: object) -> str:
    """The message without outer blanks.

    Raises:
        SubagentLifecycleError: It is no text, blank, too long, or has no UTF-8 form.
    """
    limit = f"non-blank text of at most {STEER_MAX_CHARS:,} characters"
    wrong = None
    if not isinstance(value, str):
        wrong = f"is of type {type(value).__name__}"
    elif not value.strip():
        wrong = "is blank"
    elif len(value) > STEER_MAX_CHARS:
        wrong = f"has {len(value):,} characters"
    else:
        wrong = encoding_fault(value)
    if wrong is not None or not isinstance(value, str):
        raise SubagentLifecycleError(wrong or "", field="text", limit=limit, mend="send other text")
    return value.strip()


def checked_reason(value: object) -> str:
    """The reason of a cancel or an interrupt, cut to its limit; None = none.

    Raises:
        SubagentLifecycleError: It is no text.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        raise SubagentLifecycleError(
            f"is of type {type(value).__name__}",
            field="reason",
            limit=f"a text; the first {REASON_MAX_CHARS} characters are kept",
            mend="say in a few words why",
        )
    return value[:REASON_MAX_CHARS]


def receipt(steer_id: str, message: str, reply: SteerReply) -> SteerReceipt:
    """What became of a message that was sent.

    Raises:
        SubagentLifecycleError: CAPACITY_REACHED: the run has taken as many as it may.
    """
    match reply.outcome:
        case "QUEUED":
            return SteerReceipt(steer_id=steer_id, state=SteerState.QUEUED)
        case "KNOWN":
            return receipt_of(steer_id, reply.detail, message)
        case "TERMINAL" | "CANCELLED":
            return SteerReceipt(steer_id="", state=SteerState.MISSED, text=message)
        case "UNSUPPORTED":
            return SteerReceipt(steer_id="", state=SteerState.UNSUPPORTED)
        case "CAPACITY":
            raise SubagentLifecycleError(
                "the run has taken as many messages as it may",
                field="max_steers",
                limit=reply.detail,
                mend="raise the setting max_steers, or launch another run",
                code=ErrorCode.CAPACITY_REACHED,
            )
        case _:
            return SteerReceipt.unknown()
