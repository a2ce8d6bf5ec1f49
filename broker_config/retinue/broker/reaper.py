"""The loop that mends what a lost process, a lost message or a due timer leaves behind.

Every worker process runs it; one of them is elected and acts, and whoever is deposed stops at once.
"""

from __future__ import annotations

import asyncio
import logging
import time

from retinue.broker.casualties import Casualties, Pipelines, Wakes
from retinue.broker.settings import Settings
from retinue.broker.shortfall import Shortfall
from retinue.contract import PARTITIONS, RetinueError
from retinue.store import control, keys
from retinue.store.call import RunKey, text
from retinue.store.control import NeedsSweep
from retinue.store.running import Ended
from retinue.store.store import AsyncStore

_log = logging.getLogger("retinue.reaper")
_DUE_AT_ONCE = 50
_AGAIN_MS = 1_000


class Reaper:
    """Watches, and acts while elected.

    Args:
        store: The store.
        link: The same, for plain commands.
        broker: The broker's lists; None = the broker is no Redis, and no shortfall can be seen.
        waker: Sends wake-ups.
        settings: Of this process.
        process: The worker process that it runs in.
    """

    def __init__(
        self,
        store: AsyncStore,
        link: Pipelines,
        broker: Pipelines | None,
        waker: Wakes,
        settings: Settings,
        process: str,
    ) -> None:
        self._store = store
        self._link = link
        self._waker = waker
        self._process = process
        self._lease_ms = round(settings.lease_seconds * 1000)
        self._tick_s = max(0.25, settings.lease_seconds / 10)
        self._casualties = Casualties(store, link, broker, waker, settings)
        self._shortfall = Shortfall(store, link, broker, waker, settings) if broker else None
        self._elected = False

    async def run(self) -> None:
        """Ticks until it is cancelled; an outage of the store only costs ticks."""
        while True:
            started = time.monotonic()
            try:
                await self.tick()
            except RetinueError as fault:
                # What was counted before the outage is no evidence any more: leases could not be renewed.
                self._casualties.forget()
                _log.warning("reaper.tick_failed error=%s", type(fault).__name__)
            except Exception as fault:
                self._casualties.forget()
                _log.error("reaper.tick_failed error=%s", type(fault).__name__, exc_info=fault)
            late = time.monotonic() - started > 2 * self._tick_s
            if late:
                self._casualties.forget()
            await asyncio.sleep(self._tick_s)

    async def tick(self) -> None:
        """One look, and what follows from it if this process is elected.

        Raises:
            StoreError: The store could not be asked.
        """
        elected = await self._store.run(control.elect(self._process, lease_ms=self._lease_ms))
        if elected != self._elected:
            self._elected = elected
            self._casualties.forget()
            _log.info("reaper.%s process=%s", "elected" if elected else "deposed", self._process)
        if not elected:
            return
        await self._timers()
        await self._casualties.look()
        if self._shortfall is not None:
            await self._shortfall.look()

    async def _timers(self) -> None:
        seconds, micros = await self._link.execute("TIME")
        now_ms = int(seconds) * 1000 + int(micros) // 1000
        replies = await self._link.pipeline(
            [
                ("ZRANGEBYSCORE", keys.due(number), "-inf", now_ms, "LIMIT", 0, _DUE_AT_ONCE)
                for number in range(PARTITIONS)
            ]
        )
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
            for member in reply:
                await self._due(RunKey(*keys.split_member(text(member))))

    async def _due(self, run: RunKey) -> None:
        reply = await self._store.run(control.timer(run, again_ms=_AGAIN_MS))
        match reply:
            case NeedsSweep():
                await sweep(self._store, self._waker, run)
            case Ended(wakeup=wakeup):
                if wakeup is not None:
                    await self._waker.send(wakeup)
            case None:
                return


async def sweep(store: AsyncStore, waker: Wakes, run: RunKey) -> int:
    """Sweeps the whole subtree of a marked run, chunk by chunk.

    Returns:
        How many runs it ended.

    Raises:
        StoreError: The store could not be asked; the mark stands, and the timer comes back.
    """
    cursor, ended = "", 0
    while True:
        swept = await store.run(control.sweep(run, cursor=cursor))
        ended += swept.ended
        if swept.wakeups:
            await waker.send(*swept.wakeups)
        if not swept.cursor:
            return ended
        cursor = swept.cursor
