"""A run that this process holds: the fence, and what its attempt knows of it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from itertools import count

from retinue.agents import Grant
from retinue.agents.effective import EffectiveSpec
from retinue.client.ticket import Ticket
from retinue.contract import Usage
from retinue.store.call import RunKey
from retinue.store.record import Record
from retinue.store.running import Claimed, Fence


@dataclass(slots=True, eq=False)
class HeldRun:
    """The state of one attempt. Everything that must survive it stands in the store as well.

    Args:
        key: Which run.
        fence: For every write.
        record: As it was at the claim.
        ticket: As it was launched.
        spec: The effective spec.
        spec_is_pinned: The store has it already.
        grant: The run's and all its ancestors' launches, intersected.
        thread: The messages so far.
        journal: Answered calls of the running iteration, by slot.
        iteration: Of the last recorded response: the calls in the thread are its.
        deadline: On this process's monotonic clock, None = none.
        partial: The last text of the model, for a run that is cut.
    """

    key: RunKey
    fence: Fence
    record: Record
    ticket: Ticket
    spec: EffectiveSpec
    spec_is_pinned: bool
    grant: Grant
    thread: list[str] = field(repr=False)
    journal: dict[str, str] = field(repr=False)
    iteration: int
    deadline: float | None
    partial: str | None = field(default=None, repr=False)
    alarm: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    _operations: count[int] = field(default_factory=lambda: count(1), repr=False)

    @classmethod
    def of(cls, key: RunKey, claimed: Claimed, ticket: Ticket, spec: EffectiveSpec, grant: Grant) -> HeldRun:
        """What a claim handed out, made ready to go on with."""
        left_ms = claimed.record.deadline_ms - claimed.now_ms if claimed.record.deadline_ms else None
        return cls(
            key=key,
            fence=claimed.fence,
            record=claimed.record,
            ticket=ticket,
            spec=spec,
            spec_is_pinned=claimed.spec_json is not None,
            grant=grant,
            thread=claimed.thread,
            journal=claimed.journal,
            iteration=claimed.record.recorded_iteration,
            deadline=None if left_ms is None else time.monotonic() + left_ms / 1000,
        )

    def operation(self) -> str:
        """An id for the next write: unique, since the token is."""
        return f"{self.fence.token}:{next(self._operations)}"

    @property
    def seconds_left(self) -> float | None:
        """Until the deadline; None = there is none, never below 0."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    @property
    def was_attempted_before(self) -> bool:
        """Whether an earlier attempt got hold of the run."""
        return self.fence.epoch > 1

    @property
    def usage(self) -> Usage:
        """As of the claim."""
        return self.record.usage
