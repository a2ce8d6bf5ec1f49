"""Suspects: runs that a process was lost with. Each goes on in a process that it has to itself.

What it breaks there costs nobody else anything. The process is started by the worker that received the run's
wake-up, and is one of its own in the store: with its own lease, by which its death is noticed and counted.

It takes seconds of a core to start. So one whose run has left it, such as for its children, is kept for a
while, and a worker starts one at a time: a worker that dies leaves many suspects at once, and starts by the
dozen would hold up the very workers that go on.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Final

from retinue.store.call import RunKey
from retinue.worker.pool.reports import Succeeded, TaskReport
from retinue.worker.process.slots import Slots
from retinue.worker.suspects.solo_process import SoloProcess, SoloProcessError

_log = logging.getLogger("retinue.worker")
MOST_AT_ONCE: Final = 4
"""Suspects that go on beside one worker; those that wait for other runs are not counted."""

MOST_IDLE: Final = 2
"""Processes that are kept without a run."""

IDLE_S: Final = 30.0
"""How long each of them is kept, in seconds."""

ENDS_WITHIN_S: Final = 5.0
"""How long a process may take to end beyond the time that its calls in flight have, in seconds."""

_GRACE_S: Final = 3.0
"""How much of that it has before it is told to hurry, where its calls had time."""


class Suspects:
    """Runs suspects, in the order in which they came.

    Args:
        slots: Of the worker, for a suspect needs none.
        hang_s: How long a process may give no sign of life before it is killed, in seconds.
        drain_s: How long calls in flight may take in a process that is to end, in seconds.
        most_at_once: The others wait, and stay queued in the store.
        idle_s: How long a process is kept without a run, in seconds.
    """

    def __init__(
        self,
        slots: Slots,
        *,
        hang_s: float,
        drain_s: float,
        most_at_once: int = MOST_AT_ONCE,
        idle_s: float = IDLE_S,
    ) -> None:
        self._slots = slots
        self._hang_s = hang_s
        self._drain_s = drain_s
        self._idle_s = idle_s
        self._turns = asyncio.Semaphore(most_at_once)
        self._beyond = 0
        self._known: set[str] = set()
        self._processes: set[SoloProcess] = set()
        self._idle: dict[SoloProcess, asyncio.TimerHandle] = {}
        self._wanted: deque[asyncio.Future[SoloProcess | None]] = deque()
        self._starting: asyncio.Task[None] | None = None
        self._endings: set[asyncio.Task[None]] = set()
        self._closing = False

    @property
    def waiting(self) -> int:
        """How many runs wait for a process."""
        return len(self._wanted)

    async def run(self, key: RunKey) -> TaskReport:
        """Goes on with a run that the store calls a suspect; tells what became of it."""
        if key.member in self._known:
            return Succeeded("dropped: it runs alone, or is about to")
        self._known.add(key.member)
        self._slots.lend()
        try:
            await self._turns.acquire()
            try:
                return await self._run_alone(key)
            finally:
                self._leave()
        finally:
            self._slots.take_back()
            self._known.discard(key.member)

    def close(self) -> None:
        """Has the processes hand back what they hold, and starts no more."""
        self._closing = True
        for process in self._processes:
            process.dismiss()
        while waiter := self._next_waiter():
            waiter.set_result(None)

    async def end(self, *, hurry: bool) -> None:
        """Closes, and waits until all processes have ended.

        Args:
            hurry: Calls in flight get no time; else they have had it.
        """
        self.close()
        hurry_after_s = 0.0 if hurry else _GRACE_S
        await asyncio.gather(
            *(process.end(within_s=ENDS_WITHIN_S, hurry_after_s=hurry_after_s) for process in self._processes)
        )

    async def _run_alone(self, key: RunKey) -> TaskReport:
        process = await self._process()
        if process is None:
            return Succeeded("dropped: the worker stops")
        try:
            return await process.run(key, on_wait=self._leave, on_return=self._return)
        except SoloProcessError as fault:
            # Whoever looks after lost processes counts it, as it would with this one.
            _log.warning("suspect.lost run=%s cause=%s", key.run_id, fault)
            return Succeeded(f"lost: {fault}")
        finally:
            self._put_aside(process)

    async def _process(self) -> SoloProcess | None:
        """A process without a run: one that is there, or the next to be free. None = the worker stops."""
        if self._closing:
            return None
        while self._idle:
            process, timer = self._idle.popitem()
            timer.cancel()
            if process.is_running:
                return process
            self._end_one(process)
        waiter: asyncio.Future[SoloProcess | None] = asyncio.get_running_loop().create_future()
        self._wanted.append(waiter)
        self._start_one()
        try:
            return await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled() and (process := waiter.result()):
                self._put_aside(process)
            raise

    def _next_waiter(self) -> asyncio.Future[SoloProcess | None] | None:
        while self._wanted:
            if not (waiter := self._wanted.popleft()).done():
                return waiter
        return None

    def _start_one(self) -> None:
        """Sees to it that a process starts as long as a run waits for one."""
        if self._starting is None and self._wanted and not self._closing:
            self._starting = asyncio.create_task(self._start())

    async def _start(self) -> None:
        process = SoloProcess(hang_s=self._hang_s)
        self._processes.add(process)
        await process.start()
        if not process.is_running and (waiter := self._next_waiter()):
            waiter.set_result(process)  # by its run it is told why
        else:
            self._put_aside(process)
        self._starting = None
        self._start_one()

    def _put_aside(self, process: SoloProcess) -> None:
        if not process.is_fit or not process.is_running or self._closing:
            self._end_one(process)
        elif waiter := self._next_waiter():
            waiter.set_result(process)
        elif len(self._idle) < MOST_IDLE:
            loop = asyncio.get_running_loop()
            self._idle[process] = loop.call_later(self._idle_s, self._end_idle, process)
        else:
            self._end_one(process)

    def _end_idle(self, process: SoloProcess) -> None:
        del self._idle[process]
        self._end_one(process)

    def _end_one(self, process: SoloProcess) -> None:
        """Sees to its end beside all else; until then it is one of those that `end` waits for."""
        within_s = self._drain_s + ENDS_WITHIN_S
        ending = asyncio.create_task(process.end(within_s=within_s, hurry_after_s=self._drain_s + _GRACE_S))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        ending.add_done_callback(lambda _: self._processes.discard(process))

    def _leave(self) -> None:
        """Ends a turn, or pauses it while the run waits for others: one of these may be a suspect as well."""
        if self._beyond:
            self._beyond -= 1
        else:
            self._turns.release()

    def _return(self) -> None:
        """Goes on with a turn at once: there may be one over the limit until some turn ends."""
        self._beyond += 1
