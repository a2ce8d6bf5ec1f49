"""Waiting for work in flight, and what cuts the wait short: the deadline, a cancel that stands, a loss."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from enum import StrEnum
from typing import Any

from retinue.worker.process.hints import cancel_stands
from retinue.worker.run.deadline import out_of_time
from retinue.worker.run.held import HeldRun
from retinue.worker.services import Services

AT_ONCE_S = 1.0
"""How long cancelled work may take to unwind where nobody owes it more, in seconds."""

_left_behind: set[asyncio.Task[Any]] = set()


class Cut(StrEnum):
    """Why nobody waits any longer; the store stops a run with the first two."""

    DEADLINE = "DEADLINE"
    CANCEL = "CANCEL"
    LOST = "LOST"  # another attempt owns the run


async def until_done(
    services: Services, run: HeldRun, work: Collection[asyncio.Task[Any]], *, grace_s: float
) -> Cut | None:
    """Waits for all of the work, or its first failure; it goes on where the wait is cut.

    Args:
        grace_s: How long the work may go on after an alarm. Only then is the mark asked for, so that an
            alarm without one costs nothing. A run that is lost is not owed it.

    Returns:
        What cut the wait; None = the work is done.
    """
    if not work:
        return None
    watch = _Watch(work)

    def ring() -> None:
        watch.ring(always=run.is_lost)

    run.alarm.add_listener(ring)
    try:
        while not watch.is_over:
            if run.is_lost:
                return Cut.LOST
            if run.alarm.is_set():
                await watch.wait(_sooner(grace_s, run.seconds_left), even_if_rung=True)
                if watch.is_over or run.is_lost:
                    continue
                if await cancel_stands(services.store, run.key):
                    return Cut.CANCEL
                run.alarm.clear()
            elif run.seconds_left == 0:
                if await out_of_time(services.store, run) and not watch.is_over:
                    return Cut.DEADLINE
            else:
                await watch.wait(run.seconds_left)
        return None
    finally:
        run.alarm.remove_listener(ring)


async def let_go(work: Collection[asyncio.Task[Any]], *, within_s: float) -> set[asyncio.Task[Any]]:
    """Cancels what is not done yet.

    Args:
        within_s: How long it may take to end, in seconds.

    Returns:
        What goes on regardless; nobody can stop it.
    """
    pending = {task for task in work if not task.done()}
    for task in pending:
        task.cancel()
        _left_behind.add(task)
        task.add_done_callback(_forget)
    if not pending:
        return pending
    _, still = await asyncio.wait(pending, timeout=within_s)
    return still


class _Watch:
    """Work in flight, and the one who waits for its end or until somebody rings.

    For every run there is one such wait: asyncio.wait would start a task for the alarm, and another for work
    that is waited for more than once.
    """

    def __init__(self, work: Collection[asyncio.Task[Any]]) -> None:
        self.is_over = False
        """All of it is done, or the first has failed."""
        self._left = len(work)
        self._waiter: asyncio.Future[None] | None = None
        self._hears_ring = False
        for task in work:
            task.add_done_callback(self._count)

    async def wait(self, timeout_s: float | None, *, even_if_rung: bool = False) -> None:
        """Waits for the end of the work, for a ring unless it is to be ignored, or for so long.

        Args:
            timeout_s: In seconds; None = without limit.
        """
        if self.is_over:
            return
        loop = asyncio.get_running_loop()
        waiter = self._waiter = loop.create_future()
        self._hears_ring = not even_if_rung
        timer = None if timeout_s is None else loop.call_later(timeout_s, self._wake)
        try:
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    def ring(self, *, always: bool = False) -> None:
        """Ends a wait that listens, or one that does not as well."""
        if self._hears_ring or always:
            self._wake()

    def _count(self, task: asyncio.Task[Any]) -> None:
        self._left -= 1
        if self._left == 0 or (not task.cancelled() and task.exception() is not None):
            self.is_over = True
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _sooner(grace_s: float, left_s: float | None) -> float:
    return grace_s if left_s is None else min(grace_s, left_s)


def _forget(task: asyncio.Task[Any]) -> None:
    """Keeps the only reference until the end, and asks for a failure that nobody waits for any more."""
    _left_behind.discard(task)
    if not task.cancelled():
        task.exception()
