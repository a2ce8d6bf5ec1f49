"""The loop that mends what a lost process, a lost message or a due timer leaves behind.

Every worker process runs it; one of them is elected and acts, and whoever is deposed stops at once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeVar

from retinue.broker.links import Pipelines, run_pipeline
from retinue.broker.reaper.casualties import Casualties
from retinue.broker.reaper.each_run import each_run
from retinue.broker.reaper.shortfall import Shortfall
from retinue.broker.reaper.stranded import Stranded
from retinue.broker.settings import Settings
from retinue.broker.wakeups import Wakes
from retinue.contract import PARTITIONS, RetinueError, StoreError, StoreUnavailableError
from retinue.store import keys
from retinue.store.call import RunKey, ScriptCall, text
from retinue.store.operations import control
from retinue.store.operations.control import NeedsSweep
from retinue.store.replies import Ended, Queued
from retinue.store.store import AsyncStore

T = TypeVar("T")
_log = logging.getLogger("retinue.reaper")
_DUE_AT_ONCE: Final = 200
_AGAIN_MS: Final = 1_000
_ACTS: Final = 0.8
"""The part of its election that an elected process may use up: it must be done before another acts."""

_LATE: Final = 0.75
"""The part of a lease that a live process's lease has left, at the least, when the store goes away."""


class Reaper:
    """Watches, and acts while elected.

    Args:
        store: The store.
        link: The same, for plain commands.
        broker: The broker's lists; None = the broker is no Redis, and no shortfall can be seen.
        waker: Sends wake-ups.
        settings: Of this process.
        process: The worker process that it runs in.
        more: Further parts of a tick, by name.
    """

    def __init__(
        self,
        store: AsyncStore,
        link: Pipelines,
        broker: Pipelines | None,
        waker: Wakes,
        settings: Settings,
        process: str,
        *,
        more: Sequence[tuple[str, Callable[[], Awaitable[None]]]] = (),
    ) -> None:
        self._store = store
        self._link = link
        self._waker = waker
        self._process = process
        self._more = tuple(more)
        self._lease_s = settings.lease_seconds
        self._grace_ms = round(settings.cancel_grace_seconds * 1000) + control.STUCK_MS
        self._tick_s = max(0.25, settings.lease_seconds / 10)
        self._casualties = Casualties(store, link, broker, waker, settings)
        self._stranded = Stranded(store, link, broker, waker, settings)
        self._shortfall = Shortfall(store, link, broker, waker, settings) if broker else None
        self._elected = False
        self._heard_at: float | None = None

    async def run(self) -> None:
        """Ticks until it is cancelled; an outage of the store only costs ticks."""
        while True:
            try:
                await self.tick()
            except RetinueError as fault:
                self._casualties.doubt()
                _log.warning("reaper.tick_failed error=%s", type(fault).__name__)
            except Exception as fault:
                self._casualties.doubt()
                _log.error("reaper.tick_failed error=%s", type(fault).__name__, exc_info=fault)
            await asyncio.sleep(self._tick_s)

    async def tick(self) -> None:
        """One look, and what follows from it while this process is elected.

        Each part acts under an election of its own: on a slow network one does not last for all of them.

        Raises:
            StoreError: The store could not be asked.
        """
        for name, look in (
            ("casualties", self._casualties.look),
            ("timers", self._timers),
            ("stranded", self._stranded.look),
            ("shortfall", self._look_for_shortfall),
            *self._more,
        ):
            went_through = False
            try:
                async with asyncio.timeout(_ACTS * self._lease_s):
                    if not await self._elect():
                        return
                    went_through = await self._part(name, look)
            except TimeoutError:
                _log.warning("reaper.part_failed part=%s error=TimeoutError", name)
            if name == "casualties" and not went_through:
                # Of what it had counted, nobody knows how much it has seen to.
                self._casualties.doubt()

    async def _elect(self) -> bool:
        elected = await self._store.run(control.elect(self._process, lease_ms=round(self._lease_s * 1000)))
        before, self._heard_at = self._heard_at, time.monotonic()
        if before is not None and self._heard_at - before > _LATE * self._lease_s:
            self._casualties.doubt()
        if elected != self._elected:
            self._elected = elected
            self._casualties.forget()
            if self._shortfall is not None:
                self._shortfall.forget()
            _log.info("reaper.%s process=%s", "elected" if elected else "deposed", self._process)
        return elected

    async def _part(self, name: str, look: Callable[[], Awaitable[None]]) -> bool:
        """Does one part of a tick, whose faults are no reason to leave out the others.

        Returns:
            Whether it went through.

        Raises:
            StoreUnavailableError: No part can do anything.
        """
        try:
            await look()
            return True
        except StoreUnavailableError:
            raise
        except StoreError as fault:
            _log.warning("reaper.part_failed part=%s error=%s", name, type(fault).__name__)
        except Exception as fault:
            _log.error("reaper.part_failed part=%s error=%s", name, type(fault).__name__, exc_info=fault)
        return False

    async def _look_for_shortfall(self) -> None:
        if self._shortfall is None:
            return
        try:
            await self._shortfall.look()
        except StoreError as fault:
            # A broker of its own may be away while the store is not.
            self._shortfall.forget()
            _log.warning("shortfall.not_seen error=%s", type(fault).__name__)

    async def _timers(self) -> None:
        seconds, micros = await self._link.execute("TIME")
        now_ms = int(seconds) * 1000 + int(micros) // 1000
        replies = await run_pipeline(
            self._link,
            [
                ("ZRANGEBYSCORE", keys.due(number), "-inf", now_ms, "LIMIT", 0, _DUE_AT_ONCE)
                for number in range(PARTITIONS)
            ],
        )
        await each_run([text(member) for reply in replies for member in reply], self._due)

    async def _due(self, run: RunKey) -> None:
        reply = await self._store.run(control.timer(run, again_ms=_AGAIN_MS, grace_ms=self._grace_ms))
        match reply:
            case NeedsSweep():
                await sweep(self._store, self._waker, run)
            case Ended(owed=owed) | Queued(owed=owed):
                if owed:
                    await self._waker.send(*owed)
            case None:
                return


class RunsScripts(Protocol):
    """A store that runs scripts: an AsyncStore, or one that waits for the store."""

    async def run(self, call: ScriptCall[T], /) -> T:
        """The answer to one call."""
        ...


async def sweep(store: RunsScripts, waker: Wakes, run: RunKey) -> int:
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
