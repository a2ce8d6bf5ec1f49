"""A run that this process holds: the fence, and what its attempt knows of it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from pathlib import Path

from retinue.agents import Grant
from retinue.agents.effective.effective import EffectiveSpec
from retinue.client.launching.ticket import Ticket
from retinue.contract import Role, SubagentLaunchRequest
from retinue.store.call import RunKey
from retinue.store.record import Record
from retinue.store.replies import Claimed, Fence, RequestState
from retinue.worker.process.slots import Slots
from retinue.worker.run.alarm import Alarm

_NOT_READ = Ticket(SubagentLaunchRequest(goal="not read"), Role.LEAF)
_EVERYTHING = Grant()


@lru_cache(maxsize=1_024)
def _bare_spec(agent: str, max_iterations: int) -> EffectiveSpec:
    return EffectiveSpec(agent=agent, max_iterations=max_iterations)


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
        thread: The messages so far, as the model reads them.
        journal: Answered calls of the running iteration, by slot.
        decisions: How what it asks of a human stands, by slot.
        iteration: Of the last recorded response: the calls in the thread are its.
        put_in: Entries of `thread` that the store does not hold.
        deadline: On this process's monotonic clock, as early as it may be; it moves while a human is awaited.
            None = none.
        is_out_of_time: The store said that the deadline has passed.
        working_directory: Where its tools may work on files, None = nowhere in particular.
        tools_used: Tool calls answered so far.
        calls_allowed: How many calls of the last response the budgets above the run allow; None = all.
        measured: Entries of `thread` that a response of this attempt was counted with, itself included, and
            their tokens with all else that is sent; None = none was.
        partial: The last text of the model, for a run that is cut.
        alarm: There may be a cancel mark, or the run is lost.
        hush: So there is, or an interrupt's mark: its model is asked nothing more.
        is_heard: Somebody listens to what its model writes, as the last boundary or a hint since then said.
        is_lost: Another attempt owns the run, or may: this one is to stop.
        has_left: The attempt is over; a tool that it left behind may still run.
        releases: Begins and ends of writes that give the run up; odd = one is under way.
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
    decisions: dict[str, RequestState] = field(default_factory=dict[str, RequestState])
    put_in: int = 0
    working_directory: Path | None = None
    tools_used: int = 0
    calls_allowed: int | None = None
    measured: tuple[int, int] | None = None
    partial: str | None = field(default=None, repr=False)
    alarm: Alarm = field(default_factory=Alarm, repr=False)
    is_out_of_time: bool = False
    hush: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    is_heard: bool = False
    is_lost: bool = False
    has_left: bool = False
    releases: int = 0
    _operations: count[int] = field(default_factory=lambda: count(1), repr=False)
    _waits: int = field(default=0, repr=False)
    _waits_lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @classmethod
    def of(cls, key: RunKey, claimed: Claimed, ticket: Ticket, spec: EffectiveSpec, grant: Grant) -> HeldRun:
        """What a claim handed out, made ready to go on with."""
        left_ms = claimed.record.time_left_ms(claimed.now_ms)
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
            decisions=dict(claimed.decisions),
            iteration=claimed.record.recorded_iteration,
            calls_allowed=claimed.record.calls_allowed,
            tools_used=claimed.record.usage.tool_calls if claimed.record.recorded_iteration else 0,
            deadline=None if left_ms is None else time.monotonic() + left_ms / 1000,
        )

    @classmethod
    def bare(cls, key: RunKey, claimed: Claimed) -> HeldRun:
        """A claimed run of which nothing has been read yet: enough to end it."""
        spec = _bare_spec(claimed.record.agent, claimed.record.max_iterations)
        return cls.of(key, claimed, _NOT_READ, spec, _EVERYTHING)

    def adopt(self, spec: EffectiveSpec) -> None:
        """The run goes by this spec, and by no more than it grants."""
        self.spec = spec
        self.grant = self.grant.narrowed(spec.grant.toolsets, spec.grant.blocked_tools)

    def operation(self) -> str:
        """An id for the next write: unique, since the token is."""
        return f"{self.fence.token}:{next(self._operations)}"

    def lose(self) -> None:
        """The run is, or may be, another attempt's: what this one has in flight stops. On the loop only."""
        self.is_lost = True
        self.raise_alarm()

    def raise_alarm(self) -> None:
        """All that it has in flight is to stop. On the loop only."""
        self.alarm.set()
        self.hush.set()

    def interrupt(self) -> None:
        """Its model is to be asked nothing more; its tools finish. On the loop only."""
        self.hush.set()

    @contextmanager
    def releasing(self) -> Generator[None]:
        """A write that gives the run up: until its reply is read, the record may name nobody, or others."""
        self.releases += 1
        try:
            yield
        finally:
            self.releases += 1

    def begin_wait(self, slots: Slots) -> None:
        """A tool waits for other runs: the first that does lends the run's slot. From any OS thread."""
        with self._waits_lock:
            self._waits += 1
            if self._waits == 1 and not self.has_left:
                slots.lend()

    def end_wait(self, slots: Slots) -> None:
        """The end of such a wait: the last takes the slot back. From any OS thread."""
        with self._waits_lock:
            self._waits -= 1
            if self._waits == 0 and not self.has_left:
                slots.take_back()

    def leave(self, slots: Slots) -> None:
        """The attempt is over: its slot is free, so what waits on in it lends nothing any more."""
        with self._waits_lock:
            if self._waits and not self.has_left:
                slots.take_back()
            self.has_left = True

    @property
    def takes_over(self) -> bool:
        """Whether its last response is that of the agent which handed it off, and none of its own yet."""
        return self.record.handoffs > 0 and not self.spec_is_pinned

    @property
    def shares_its_thread(self) -> bool:
        """Whether other runs have written to its thread, or will."""
        return self.record.thread_id != self.key.run_id

    @property
    def stored_length(self) -> int:
        """How many entries the store holds of `thread`."""
        return len(self.thread) - self.put_in

    @property
    def should_stop(self) -> bool:
        """Whether a tool works for nothing: its run is cancelled, out of time, or not here any more."""
        return self.has_left or self.is_lost or self.alarm.is_set() or self.is_out_of_time

    @property
    def seconds_left(self) -> float | None:
        """Until the deadline may have passed; None = there is none, never below 0."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    @property
    def was_attempted_before(self) -> bool:
        """Whether an earlier attempt got hold of the run."""
        return self.fence.epoch > 1
