"""What answers the calls of one kind, and what the start of a call comes to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from retinue.contract import Phase
from retinue.store.operations.asking import Asked
from retinue.worker.calls.turn import TurnCall
from retinue.worker.run.outcome import Fenced, Finish, HandOff


@dataclass(frozen=True, slots=True)
class Answered:
    """The call's result stands in the journal."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Somebody else will write the call's result into the journal.

    Args:
        phase: What the run waits for, should it leave the worker: waiting_children and its like.
        entry: The open entry as the store keeps it, kind:detail; or what a human is asked.
        children: Those in the background that the call waits for: `entry` is then `child` (for all of them)
            or `any`, and the call is started again when they have ended, for nobody else answers it.
    """

    phase: Phase
    entry: str | Asked
    children: tuple[str, ...] = ()

    def entries(self, slot: str) -> list[tuple[str, str | Asked]]:
        """The open entries of the call in a slot (iteration:index)."""
        if not self.children:
            return [(slot, self.entry)]
        return [(f"{slot}@{child}", f"{self.entry}:{child}") for child in self.children]


CallOutcome = Answered | Waiting | HandOff | Finish | Fenced


class CallHandler(Protocol):
    """Answers the calls of one kind."""

    async def start(self, asked: TurnCall, *, lost: bool) -> CallOutcome:
        """Starts one call.

        Args:
            asked: The call.
            lost: An earlier attempt may have started it.
        """
        ...
