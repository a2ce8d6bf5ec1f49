"""Queued runs that no live worker will come to: their agent is nobody's, or their queue.

Without a worker for the agent they say so, and are woken once one has come. A queue that nobody serves, and
that neither a worker's settings nor an agent's declaration names, is passed by: only some client knows it, so
its runs are sent to a worker that has their agent. A queue that an operator has chosen is waited for.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from typing import Final

from retinue.broker.catalogue import AsyncCatalogue, CatalogueSnapshot
from retinue.broker.links import Pipelines
from retinue.broker.reaper.backlog import Backlog, known_queues, waited_in
from retinue.broker.reaper.each_run import each_run
from retinue.broker.reaper.resending import resend
from retinue.broker.settings import Settings
from retinue.broker.wakeups import Wakes
from retinue.store.call import RunKey
from retinue.store.operations import control
from retinue.store.store import AsyncStore

_log = logging.getLogger("retinue.reaper")
EVERY_S: Final = 2.0
"""Seconds between looks."""

UNSERVED_S: Final = 10.0
"""How long a queue is left alone that nobody serves: its workers may only be starting anew."""

_PAGE: Final = 200


class Stranded:
    """Looks page by page at what is queued, and compares it with what live workers can run.

    Args:
        store, link: The store, for operations and for plain commands.
        broker: Where private queues are; None = not on a Redis.
        waker: Sends wake-ups.
        settings: Of this process.
        every_s: Seconds between looks; 0 = at each call.
        unserved_s: Seconds that a queue is left alone which nobody serves.
    """

    def __init__(
        self,
        store: AsyncStore,
        link: Pipelines,
        broker: Pipelines | None,
        waker: Wakes,
        settings: Settings,
        *,
        every_s: float = EVERY_S,
        unserved_s: float = UNSERVED_S,
    ) -> None:
        self._store = store
        self._link = link
        self._broker = broker
        self._unserved_s = unserved_s
        self._unserved: dict[str, float] = {}
        self._waker = waker
        self._settings = settings
        self._every_s = every_s
        self._catalogue = AsyncCatalogue(store)
        self._backlog = Backlog(link)
        self._next_look = 0.0

    async def look(self) -> None:
        """One look at a page of each queue, unless the last one is too recent.

        Raises:
            StoreError: The store could not be asked.
        """
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + self._every_s
        snapshot = await self._catalogue.snapshot(fresh=True)
        if not snapshot.workers:
            return  # this process lives, so the leases only have not been renewed yet
        waited = await waited_in(self._link)
        queues = known_queues(self._settings, snapshot, waited)
        chosen = known_queues(self._settings, snapshot, {})
        passed_by = self._passed_by(queues, snapshot) - {*chosen}
        for queue in queues:
            page = await self._backlog.page(queue, _PAGE)
            lost = [
                run.member
                for run in page
                if not run.was_claimed and not run.lacks_worker and not snapshot.can_run(run.agent)
            ]
            marked = await each_run(lost, self._mark)
            if any(marked):
                _log.warning("runs.no_worker queue=%s count=%d", queue, sum(marked))
            # The message of such a run may be gone: a worker that could not run it has taken it.
            stuck = [run for run in page if run.lacks_worker or queue in passed_by]
            await resend(self._store, self._waker, stuck, snapshot, queue=queue, broker=self._broker)
            if not page and queue in self._unserved:
                await asyncio.gather(*(self._forget(number, queue) for number in waited.get(queue, ())))

    def _passed_by(self, queues: Iterable[str], snapshot: CatalogueSnapshot) -> set[str]:
        """The queues that nobody has served for long enough."""
        now = time.monotonic()
        served = {queue for worker in snapshot.takers for queue in worker.queues}
        self._unserved = {queue: self._unserved.get(queue, now) for queue in queues if queue not in served}
        return {queue for queue, since in self._unserved.items() if now - since >= self._unserved_s}

    async def _forget(self, partition: int, queue: str) -> None:
        await self._store.run(control.forget_queue(partition, queue))

    async def _mark(self, run: RunKey) -> bool:
        return await self._store.run(control.no_worker(run))
