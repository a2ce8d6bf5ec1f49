"""Doing the same for many runs: some at a time, and without one broken run holding up the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from retinue.contract import StoreReplyError
from retinue.store import keys
from retinue.store.call import RunKey

T = TypeVar("T")
AT_ONCE: Final = 50
"""Scripts in flight: about 5 ms of the server, so that workers' calls get in between."""

_log = logging.getLogger("retinue.reaper")


async def each_run(members: Sequence[str], do: Callable[[RunKey], Awaitable[T | None]]) -> list[T]:
    """Does something for the runs of an index.

    Args:
        members: As they stand in the index.
        do: What to do; None = nothing came of it.

    Returns:
        What came of it, in the order of the members.

    Raises:
        StoreError: The store could not be asked. What it refused for one run alone is logged.
    """
    found: list[T] = []
    for start in range(0, len(members), AT_ONCE):
        tries = [_one(member, do) for member in members[start : start + AT_ONCE]]
        for outcome in await asyncio.gather(*tries, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
            if outcome is not None:
                found.append(outcome)
    return found


async def _one(member: str, do: Callable[[RunKey], Awaitable[T | None]]) -> T | None:
    run = RunKey(*keys.split_member(member))
    try:
        return await do(run)
    except (StoreReplyError, ValueError) as fault:
        # A member that is no run of ours, or a record that a newer version wrote.
        _log.error("run.not_mended run=%s error=%s", run.run_id, type(fault).__name__)
        return None
