"""What comes next for a run that a worker holds: one of these, matched exhaustively."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import JsonValue

from retinue.contract import ErrorClassification, SubagentState
from retinue.store.record import WakeUp


@dataclass(frozen=True, slots=True)
class Finish:
    """The run is to end.

    Args:
        state: A terminal one.
        classification: Why, for FAILED and INTERRUPTED.
        summary: The last text; the partial one where the run was cut.
        message: What went wrong, in words that are safe to show to the run's owner.
        natural: The agent came to its end by itself: a waiting steer may still go on.
        payload: A structured result.
        answers: Slot and head of the message of each call of the turn that ended the run: the next run in its
            thread reads what they came to.
    """

    state: SubagentState
    classification: ErrorClassification | None = None
    summary: str | None = field(default=None, repr=False)
    message: str | None = field(default=None, repr=False)
    natural: bool = False
    payload: JsonValue = field(default=None, repr=False)
    answers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Left:
    """The run waits in the store for `open` answers; no worker holds it."""

    phase: str
    open: int


@dataclass(frozen=True, slots=True)
class HandOff:
    """Another agent goes on with the run, and with its conversation; `wakeup` is owed to it."""

    recipient: str
    wakeup: WakeUp


@dataclass(frozen=True, slots=True)
class HandBack:
    """This process stops; another one goes on with the run."""


@dataclass(frozen=True, slots=True)
class Fenced:
    """The attempt may not write any more: the run is another's, or the store has lost what this one did."""


Outcome = Finish | Left | HandOff | HandBack | Fenced
