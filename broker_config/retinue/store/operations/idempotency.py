"""Requests that are done once, however often they are sent: what is known of each, by its caller's key."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from retinue.store import keys
from retinue.store.call import ScriptCall, text, unexpected
from retinue.store.scripts import script

KEPT_MS: Final = 24 * 3_600_000
"""How long a request is known: from its beginning, and again from its answer."""

ATTEMPT_MS: Final = 5_000
"""How long an attempt is waited for. It only saves work: two attempts at a time come to the same."""


@dataclass(frozen=True, slots=True)
class Begun:
    """The caller is to do the work.

    Args:
        seed: The same for all attempts at this request.
        begun_ms: When the first one began, by the server's clock.
        is_repeat: An earlier one broke off, having done what is not known.
    """

    seed: str
    begun_ms: int
    is_repeat: bool


@dataclass(frozen=True, slots=True)
class Answered:
    """The work was done. `answer`: as it was given then."""

    answer: str


class Refused(StrEnum):
    """Why nothing is to be done."""

    BUSY = "BUSY"  # another attempt is at it
    OTHER = "OTHER"  # the key was used for another request


class Outcome(StrEnum):
    """How an attempt ended."""

    DONE = "done"
    UNDONE = "undone"  # it surely did nothing
    UNKNOWN = "unknown"


Beginning = Begun | Answered | Refused


def place(*names: str) -> str:
    """Where a request is kept.

    Args:
        names: Whatever tells it from others: tenant, caller, route and the caller's key.
    """
    return keys.once(hashlib.sha256("\0".join(names).encode()).hexdigest()[:40])


def begin_request(at: str, *, fingerprint: str, attempt: str, seed: str) -> ScriptCall[Beginning]:
    """Begins an attempt.

    Args:
        at: `place` of the request.
        fingerprint: Of all that it asks for.
        attempt: Random; a repeat of this call has the same.
        seed: Random; used if this is the first attempt.
    """

    def parse(reply: Any) -> Beginning:
        match text(reply[0]):
            case "NEW" | "AGAIN" as kind:
                return Begun(text(reply[1]), int(reply[2]), is_repeat=kind == "AGAIN")
            case "DONE":
                return Answered(text(reply[1]))
            case "BUSY" | "OTHER" as kind:
                return Refused(kind)
            case _:
                raise unexpected("begin_request", reply)

    argv = (fingerprint, attempt, seed, ATTEMPT_MS, KEPT_MS)
    return ScriptCall(script("begin_request"), (at,), argv, parse)


def end_request(at: str, *, attempt: str, outcome: Outcome, answer: str = "") -> ScriptCall[bool]:
    """Ends an attempt.

    Args:
        at, attempt: As it began.
        outcome: How it ended.
        answer: What to answer from now on, if it is done.

    Returns:
        A call that answers whether it was still this attempt's to say.
    """

    def parse(reply: Any) -> bool:
        return text(reply) == "OK"

    return ScriptCall(script("end_request"), (at,), (attempt, outcome.value, answer, KEPT_MS), parse)
