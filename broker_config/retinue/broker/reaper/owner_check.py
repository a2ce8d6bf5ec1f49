"""Runs that stand in this process's name though it does not run them: the reply to their claim was lost.

And the reverse: runs that it works on and that do not, for they were taken from it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from retinue.broker.links import Pipelines
from retinue.broker.reaper.casualties import owned_members, take_over
from retinue.broker.settings import Settings
from retinue.broker.wakeups import Wakes
from retinue.contract import RetinueError
from retinue.store.store import AsyncStore

_log = logging.getLogger("retinue.worker")
EVERY_S = 5.0


class OwnerCheck:
    """Compares now and then what stands in a process's name with what it runs, and hands the rest back.

    Args:
        store, link: The store, for operations and for plain commands.
        waker: Sends the wake-ups of what is handed back.
        settings: Of this process.
        process: The process.
        held: The members that it runs, or is claiming just now.
        not_owned: Told of those among them that do not stand in its name: just being claimed, or taken away.
        every_s: Seconds between checks.
    """

    def __init__(
        self,
        store: AsyncStore,
        link: Pipelines,
        waker: Wakes,
        settings: Settings,
        process: str,
        held: Callable[[], set[str]],
        *,
        not_owned: Callable[[set[str]], Awaitable[None]] | None = None,
        every_s: float = EVERY_S,
    ) -> None:
        self._store = store
        self._link = link
        self._waker = waker
        self._settings = settings
        self._process = process
        self._held = held
        self._not_owned = not_owned
        self._every_s = every_s
        self._suspects: set[str] = set()

    async def run(self) -> None:
        """Checks until it is cancelled."""
        while True:
            await asyncio.sleep(self._every_s)
            try:
                await self.check()
            except RetinueError as fault:
                _log.warning("owner_check.failed error=%s", type(fault).__name__)
            except Exception as fault:
                _log.error("owner_check.failed error=%s", type(fault).__name__, exc_info=fault)

    async def check(self) -> int:
        """One check; a run is handed back once two checks in a row have found it.

        Returns:
            How many were handed back.

        Raises:
            StoreError: The store could not be asked.
        """
        owned, held = await owned_members(self._link, self._process), self._held()
        if self._not_owned is not None and (foreign := held - owned):
            await self._not_owned(foreign)
        strays = owned - self._held()
        confirmed, self._suspects = strays & self._suspects, strays
        if not confirmed:
            return 0
        count = await take_over(
            self._store,
            self._waker,
            self._process,
            sorted(confirmed),
            dead=False,
            losses_before_end=self._settings.losses_before_worker_lost,
            spare=lambda member: member in self._held(),
        )
        if count:
            _log.warning("runs.handed_back process=%s count=%d", self._process, count)
        return count
