"""A run that this process holds: the fence, and what its attempt knows of it."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from retinue.agents import Grant
from retinue.agents.effective import EffectiveSpec
from retinue.client.ticket import Ticket
from retinue.contract import Usage
from retinue.store.call import RunKey
from retinue.store.record import Record
from retinue.store.replies import Claimed, Fence


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
        working_directory: Where its tools may work on files, None = nowhere in particular.
        tools_used: Tool calls answered so far.
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
    working_directory: Path | None = None
    tools_used: int = 0
    partial: str | None = field(default=None, repr=False)
    alarm: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    _operations: count[int] = field(default_factory=lambda: count(1), repr=False)
    _waits: int = field(default=0, repr=False)
    _waits_lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

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
            tools_used=claimed.record.usage.tool_calls,
            deadline=None if left_ms is None else time.monotonic() + left_ms / 1000,
        )

    def operation(self) -> str:
        """An id for the next write: unique, since the token is."""
        return f"{self.fence.token}:{next(self._operations)}"

    def begin_wait(self) -> bool:
        """Notes that a tool waits for other runs; whether it is the first that does. From any OS thread."""
        with self._waits_lock:
            self._waits += 1
            return self._waits == 1

    def end_wait(self) -> bool:
        """The end of such a wait; whether it was the last. From any OS thread."""
        with self._waits_lock:
            self._waits -= 1
            return self._waits == 0

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
