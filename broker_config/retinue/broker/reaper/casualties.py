"""Worker processes that died: noticed by their lease, and what they held is queued again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from retinue.broker.catalogue import WorkerEntry, read_gone, read_leases, read_workers, withdraw
from retinue.broker.links import Pipelines, run_pipeline
from retinue.broker.reaper.each_run import each_run
from retinue.broker.routes import private_queue, queue_keys
from retinue.broker.settings import Settings
from retinue.broker.wakeups import Wakes
from retinue.contract import PARTITIONS, StoreError, StoreUnavailableError
from retinue.store import keys
from retinue.store.call import RunKey, text
from retinue.store.operations import provider_places, running
from retinue.store.replies import Ended, Queued
from retinue.store.store import AsyncStore

_log = logging.getLogger("retinue.reaper")
LOOKS_BEFORE_DEATH: Final = 3
"""Prompt looks in a row that must all have missed the lease: one late tick is no evidence."""

GONE_EVERY_S: Final = 5.0
"""Seconds between looks after processes that are gone."""


_LONGEST_LEASE: Final = 10
"""How many times a process's own lease another's may last."""


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
        self._no_verdict_before = 0.0
        self._next_gone = 0.0

    def forget(self) -> None:
        """Starts counting anew: the last looks were not made by this process."""
        self._missed.clear()

    def doubt(self) -> None:
        """The store may have been away: whoever lives gets the time to renew a lease that ran out."""
        self._missed.clear()
        self._no_verdict_before = time.monotonic() + self._settings.lease_seconds

    async def look(self) -> None:
        """One look at all leases; buries those that were missing in several looks in a row.

        Raises:
            StoreError: The store could not be asked.
        """
        if time.monotonic() < self._no_verdict_before:
            return
        workers = await self._store.run(read_workers())
        live = await self._store.run(read_leases(list(workers))) if workers else frozenset[str]()
        self._missed = {name: self._missed.get(name, 0) + 1 for name in workers if name not in live}
        dead = [name for name, looks in self._missed.items() if looks >= LOOKS_BEFORE_DEATH]
        for process in dead:
            del self._missed[process]
            await self._bury_alone(workers[process])
        if dead or time.monotonic() >= self._next_gone:
            self._next_gone = time.monotonic() + GONE_EVERY_S
            await self._cap_leases(workers)
            await self._look_after_gone()

    async def _bury_alone(self, worker: WorkerEntry) -> None:
        """A process that cannot be buried must not keep the others from it; it is counted anew."""
        try:
            await self._bury(worker)
        except StoreUnavailableError:
            raise
        except Exception as fault:
            _log.error(
                "worker.not_buried process=%s error=%s", worker.process, type(fault).__name__, exc_info=fault
            )

    async def _bury(self, worker: WorkerEntry) -> None:
        """Takes over what the process held; its entry goes last, so that a crash here only repeats it."""
        taken = await self._take_over(worker.process)
        await free_places(self._store, self._settings, worker.process)
        await withdraw(self._link, worker.process)
        _log.warning(
            "worker.dead process=%s host=%s pid=%d runs=%d", worker.process, worker.host, worker.pid, taken
        )

    async def _cap_leases(self, workers: Iterable[str]) -> None:
        """Shortens leases that outlast any renewal: the server's clock was put back since the last one.

        Other workers' leases may be longer than this one's, but hardly by so much.
        """
        longest_ms = round(_LONGEST_LEASE * self._settings.lease_seconds * 1000)
        await run_pipeline(
            self._link, [("PEXPIRE", keys.lease(process), longest_ms, "LT") for process in workers]
        )

    async def _look_after_gone(self) -> None:
        """Clears what came to a process after it was gone.

        One that was only frozen may thaw, claim a run with a message that lay in its socket, and die
        before it advertises itself again; nobody else would ever look for that run.
        """
        gone = await self._store.run(read_gone(time.time()))
        if not gone:
            return
        back = await self._store.run(read_leases(gone))
        really = [process for process in gone if process not in back]
        for process in really:
            taken = await self._take_over(process)
            if taken:
                _log.warning("worker.gone process=%s runs=%d", process, taken)
        if really and self._broker is not None:
            await self._clear_queues(self._broker, really)

    async def _clear_queues(self, broker: Pipelines, processes: Sequence[str]) -> None:
        names = [key for process in processes for key in queue_keys(private_queue(process))]
        try:
            await broker.execute("DEL", *names)
        except StoreError as fault:
            # A broker of its own may be away while the store is not; the next look tries again.
            _log.warning("private_queues.not_cleared error=%s", type(fault).__name__)

    async def _take_over(self, process: str) -> int:
        losses = self._settings.losses_before_worker_lost
        members = await owned_members(self._link, process)
        return await take_over(
            self._store, self._waker, process, sorted(members), dead=True, losses_before_end=losses
        )


async def free_places(store: AsyncStore, settings: Settings, process: str) -> None:
    """Gives back what a process held of the providers that have limits: it sends nothing any more.

    Raises:
        StoreError: The store could not be asked.
    """
    for name, provider in settings.providers.items():
        if provider.limits is not None:
            await store.run(provider_places.free_places(name, process, provider.limits))


async def take_over(
    store: AsyncStore,
    waker: Wakes,
    process: str,
    members: Sequence[str],
    *,
    dead: bool,
    losses_before_end: int,
    counted: bool = True,
    spare: Callable[[str], bool] = lambda _member: False,
) -> int:
    """Takes runs from a process, and wakes them.

    Args:
        members: The runs, as they stand in its owner sets.
        dead: The process is gone; else it says itself that it does not run them.
        losses_before_end: Counted losses after which a run fails with WORKER_LOST.
        counted: False = the process stops in good order, which is nothing that the runs can help.
        spare: Asked just before each: True = leave this one.

    Returns:
        How many it really held.

    Raises:
        StoreError: The store could not be asked.
    """

    async def take(run: RunKey) -> Queued | Ended | None:
        if spare(run.member):
            return None
        call = running.take_over(
            run, process=process, dead=dead, losses_before_end=losses_before_end, counted=counted
        )
        reply = await store.run(call)
        if reply is not None and reply.owed:
            await waker.send(*reply.owed)
        return reply

    return len(await each_run(members, take))


async def owned_members(link: Pipelines, process: str) -> set[str]:
    """Every run that stands in a process's owner sets.

    Raises:
        StoreError: The store could not be asked.
    """
    commands = [("SMEMBERS", keys.owned(number, process)) for number in range(PARTITIONS)]
    return {text(member) for reply in await run_pipeline(link, commands) for member in reply}
