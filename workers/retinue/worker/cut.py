"""Waiting for work in flight, and what cuts the wait short: the run's deadline, or a cancel that stands."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from enum import StrEnum
from typing import Any

from retinue.worker.held import HeldRun
from retinue.worker.hints import cancel_stands
from retinue.worker.services import Services

AT_ONCE_S = 1.0
"""How long cancelled work may take to unwind where nobody owes it more, in seconds."""

_left_behind: set[asyncio.Task[Any]] = set()


class Cut(StrEnum):
    """Why nobody waits any longer; the values are those with which the store stops a run."""

    DEADLINE = "DEADLINE"
    CANCEL = "CANCEL"


async def until_done(
    services: Services, run: HeldRun, work: Collection[asyncio.Task[Any]], *, grace_s: float
) -> Cut | None:
    """Waits for all of the work, or its first failure; it goes on where the wait is cut.

    Args:
        grace_s: How long the work may go on after an alarm. Only then is the mark asked for, so that an
            alarm without one costs nothing.

    Returns:
        What cut the wait; None = the work is done.
    """
    if not work:
        return None
    done = asyncio.ensure_future(asyncio.wait(work, return_when=asyncio.FIRST_EXCEPTION))
    try:
        while True:
            alarmed = await _alarm_before(done, run)
            if done.done():
                return None
            if alarmed:
                await asyncio.wait({done}, timeout=_sooner(grace_s, run.seconds_left))
                if done.done():
                    return None
                if await cancel_stands(services.store, run.key):
                    return Cut.CANCEL
                run.alarm.clear()
            if run.seconds_left == 0:
                return Cut.DEADLINE
    finally:
        done.cancel()


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


async def _alarm_before(done: asyncio.Future[Any], run: HeldRun) -> bool:
    """Whether the alarm came before the deadline and the end of the work."""
    alarm = asyncio.ensure_future(run.alarm.wait())
    try:
        await asyncio.wait({done, alarm}, timeout=run.seconds_left, return_when=asyncio.FIRST_COMPLETED)
        return alarm.done()
    finally:
        alarm.cancel()


def _sooner(grace_s: float, left_s: float | None) -> float:
    return grace_s if left_s is None else min(grace_s, left_s)


def _forget(task: asyncio.Task[Any]) -> None:
    """Keeps the only reference until the end, and asks for a failure that nobody waits for any more."""
    _left_behind.discard(task)
    if not task.cancelled():
        task.exception()
