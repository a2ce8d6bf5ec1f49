"""Queued runs whose agent no live worker has: they say so, and are woken once one has come."""

from __future__ import annotations

import logging
import time
from typing import Final

from retinue.broker.backlog import Backlog, known_queues
from retinue.broker.catalogue import AsyncCatalogue
from retinue.broker.each_run import each_run
from retinue.broker.links import Pipelines
from retinue.broker.resending import can_run, resend
from retinue.broker.settings import Settings
from retinue.broker.wakeups import Wakes
from retinue.store import control
from retinue.store.call import RunKey
from retinue.store.store import AsyncStore

_log = logging.getLogger("retinue.reaper")
EVERY_S: Final = 2.0
"""Seconds between looks."""

_PAGE: Final = 200


class Stranded:
    """Looks page by page at what is queued, and compares it with what live workers can run.

    Args:
        store, link: The store, for operations and for plain commands.
        waker: Sends wake-ups.
        settings: Of this process.
        every_s: Seconds between looks; 0 = at each call.
    """

    def __init__(
        self,
        store: AsyncStore,
        link: Pipelines,
        waker: Wakes,
        settings: Settings,
        *,
        every_s: float = EVERY_S,
    ) -> None:
        self._store = store
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
        for queue in known_queues(self._settings, snapshot):
            page = await self._backlog.page(queue, _PAGE)
            lost = [
                run.member
                for run in page
                if not run.was_claimed and not run.lacks_worker and not can_run(snapshot, run.agent)
            ]
            marked = await each_run(lost, self._mark)
            if any(marked):
                _log.warning("runs.no_worker queue=%s count=%d", queue, sum(marked))
            # The message of such a run may be gone: a worker that could not run it has taken it.
            await resend(self._store, self._waker, [run for run in page if run.lacks_worker], snapshot)

    async def _mark(self, run: RunKey) -> bool:
        return await self._store.run(control.no_worker(run))
