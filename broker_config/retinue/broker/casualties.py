"""Worker processes that died: noticed by their lease, and what they held is queued again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

from retinue.broker.catalogue import WorkerEntry, read_leases, read_workers, withdraw
from retinue.broker.routes import queue_keys
from retinue.broker.settings import Settings
from retinue.contract import PARTITIONS
from retinue.store import keys, running
from retinue.store.call import RunKey, text
from retinue.store.record import WakeUp
from retinue.store.running import Ended, Queued
from retinue.store.store import AsyncStore

_log = logging.getLogger("retinue.reaper")
LOOKS_BEFORE_DEATH = 3
"""Prompt looks in a row that must all have missed the lease: one late tick is no evidence."""


class Pipelines(Protocol):
    """A link that runs several commands in one round trip; errors come back in their place."""

    async def execute(self, *args: Any) -> Any: ...
    async def pipeline(self, commands: Any, /) -> list[Any]: ...


class Wakes(Protocol):
    """Sends wake-ups."""

    async def send(self, *wakeups: WakeUp) -> bool: ...


class Casualties:
    """Looks for processes without a lease and takes over their runs.

    Args:
        store, link: The store, for operations and for plain commands.
        broker: Where private queues are; None = not on a Redis, so they are left to expire.
        waker: Sends the wake-ups of the runs taken over.
        settings: Of this process.
    """

    def __init__(
        self, store: AsyncStore, link: Pipelines, broker: Pipelines | None, waker: Wakes, settings: Settings
    ) -> None:
        self._store = store
        self._link = link
        self._broker = broker
        self._waker = waker
        self._settings = settings
        self._missed: dict[str, int] = {}

    def forget(self) -> None:
        """Starts counting anew: the last looks were not prompt, or not made by this process."""
        self._missed.clear()

    async def look(self) -> None:
        """One look at all leases; buries those that were missing in several looks in a row.

        Raises:
            StoreError: The store could not be asked.
        """
        workers = await self._store.run(read_workers())
        if not workers:
            self._missed.clear()
            return
        live = await self._store.run(read_leases(list(workers)))
        self._missed = {name: self._missed.get(name, 0) + 1 for name in workers if name not in live}
        for process, looks in list(self._missed.items()):
            if looks >= LOOKS_BEFORE_DEATH:
                await self._bury(workers[process])
                del self._missed[process]

    async def _bury(self, worker: WorkerEntry) -> None:
        """Takes over what the process held; its entry goes last, so that a crash here only repeats it."""
        taken = await take_over_owned(
            self._store,
            self._link,
            self._waker,
            worker.process,
            dead=True,
            losses_before_end=self._settings.losses_before_worker_lost,
        )
        if self._broker is not None:
            await self._broker.execute("DEL", *queue_keys(worker.private_queue))
        await withdraw(self._link, worker.process)
        _log.warning(
            "worker.dead process=%s host=%s pid=%d runs=%d", worker.process, worker.host, worker.pid, taken
        )


async def take_over_owned(
    store: AsyncStore,
    link: Pipelines,
    waker: Wakes,
    process: str,
    *,
    dead: bool,
    losses_before_end: int,
    only: Callable[[str], bool] = lambda _member: True,
) -> int:
    """Takes over runs from a process's owner sets.

    Args:
        dead: The process is gone; else it says itself that it does not run them.
        losses_before_end: Counted losses after which a run fails with WORKER_LOST.
        only: Which members.

    Returns:
        How many there were.
    """
    count = 0
    for member in await owned_members(link, process):
        if not only(member):
            continue
        run = RunKey(*keys.split_member(member))
        reply = await store.run(
            running.take_over(run, process=process, dead=dead, losses_before_end=losses_before_end)
        )
        if isinstance(reply, Queued | Ended):
            count += 1
            if reply.wakeup is not None:
                await waker.send(reply.wakeup)
    return count


async def owned_members(link: Pipelines, process: str) -> set[str]:
    """Every run that stands in a process's owner sets.

    Raises:
        StoreError: The store could not be asked.
    """
    replies = await link.pipeline([("SMEMBERS", keys.owned(number, process)) for number in range(PARTITIONS)])
    members: set[str] = set()
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
        members.update(text(member) for member in reply)
    return members
