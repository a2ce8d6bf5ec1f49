"""Suspects: runs that a process was lost with. Each goes on in a process that it has to itself.

What it breaks there costs nobody else anything. The process is started by the worker that received the run's
wake-up, and is one of its own in the store: with its own lease, by which its death is noticed and counted.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from retinue.store.call import RunKey
from retinue.worker.reports import Succeeded, TaskReport
from retinue.worker.services import Slots
from retinue.worker.solo_process import SoloProcess, SoloProcessError

_log = logging.getLogger("retinue.worker")
MOST_AT_ONCE: Final = 4
"""Suspects that go on beside one worker; those that wait for other runs are not counted."""


class Suspects:
    """Runs suspects, in the order in which they came.

    Args:
        slots: Of the worker, for a suspect needs none.
        hang_s: How long a process may give no sign of life before it is killed, in seconds.
        most_at_once: The others wait, and stay queued in the store.
    """

    def __init__(self, slots: Slots, *, hang_s: float, most_at_once: int = MOST_AT_ONCE) -> None:
        self._slots = slots
        self._hang_s = hang_s
        self._turns = asyncio.Semaphore(most_at_once)
        self._beyond = 0
        self._waiting = 0
        self._known: set[str] = set()
        self._processes: set[SoloProcess] = set()
        self._idle: list[SoloProcess] = []
        self._closing = False

    async def run(self, key: RunKey) -> TaskReport:
        """Goes on with a run that the store calls a suspect; tells what became of it."""
        if key.member in self._known:
            return Succeeded("dropped: it runs alone, or is about to")
        self._known.add(key.member)
        self._slots.lend()
        try:
            await self._take_turn()
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

    async def _run_alone(self, key: RunKey) -> TaskReport:
        if self._closing:
            return Succeeded("dropped: the worker stops")
        process = self._idle.pop() if self._idle else SoloProcess(hang_s=self._hang_s)
        self._processes.add(process)
        is_fit = False
        try:
            report = await process.run(key, on_wait=self._leave, on_return=self._return)
            is_fit = process.is_fit
        except SoloProcessError as fault:
            # Whoever looks after lost processes counts it, as it would with this one.
            _log.warning("suspect.lost run=%s cause=%s", key.run_id, fault)
            report = Succeeded(f"lost: {fault}")
        finally:
            if is_fit and self._waiting and not self._closing:
                self._idle.append(process)
            else:
                self._processes.discard(process)
                process.dismiss()
        return report

    async def _take_turn(self) -> None:
        self._waiting += 1
        try:
            await self._turns.acquire()
        finally:
            self._waiting -= 1

    def _leave(self) -> None:
        """Ends a turn, or pauses it while the run waits for others: one of these may be a suspect as well."""
        if self._beyond:
            self._beyond -= 1
        else:
            self._turns.release()

    def _return(self) -> None:
        """Goes on with a turn at once: there may be one over the limit until some turn ends."""
        self._beyond += 1
