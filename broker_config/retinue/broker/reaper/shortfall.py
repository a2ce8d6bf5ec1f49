"""Wake-ups that vanished: fewer messages on the broker than queued runs in the store, twice in a row."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

from retinue.broker.catalogue import AsyncCatalogue
from retinue.broker.links import Pipelines, run_pipeline
from retinue.broker.reaper.backlog import Backlog, QueuedRun, known_queues, waited_in
from retinue.broker.reaper.resending import LONGEST_BACKOFF_MS, resend
from retinue.broker.routes import queue_keys
from retinue.broker.settings import Settings
from retinue.broker.wakeups import Wakes
from retinue.contract import PARTITIONS
from retinue.store import keys
from retinue.store.store import AsyncStore

_log = logging.getLogger("retinue.reaper")
MOST_RESENT: Final = 200
"""Wake-ups sent again per queue and look."""


class Shortfall:
    """Compares queued runs with messages and sends the difference again, the longest-queued first.

    Args:
        store, link: The store, for operations and for plain commands.
        broker: The broker's lists; the link itself where both are one server.
        waker: Sends wake-ups.
        settings: Of this process: its routes name queues that no worker may serve yet.
    """

    def __init__(
        self, store: AsyncStore, link: Pipelines, broker: Pipelines, waker: Wakes, settings: Settings
    ) -> None:
        self._store = store
        self._link = link
        self._broker = broker
        self._waker = waker
        self._settings = settings
        self._catalogue = AsyncCatalogue(store)
        self._backlog = Backlog(link)
        self._before: Counter[str] = Counter()
        self._looked_ms = 0

    def forget(self) -> None:
        """Lets the next look be the first."""
        self._before = Counter()

    async def look(self) -> None:
        """One comparison; sends again what was missing in this look and in the one before.

        Raises:
            StoreError: The store or the broker could not be asked.
        """
        queues = known_queues(self._settings, await self._catalogue.snapshot(), await waited_in(self._link))
        before, before_ms = self._before, self._looked_ms
        self._looked_ms, self._before = await self._missing(queues)
        lasting = self._before & before
        if not lasting:
            return
        # Asked anew: a message for a worker that has died since would lie there for good.
        snapshot = await self._catalogue.snapshot(fresh=True)
        for queue, count in sorted(lasting.items()):
            page = await self._backlog.page(queue, min(count, MOST_RESENT))
            waiting = [run for run in page if _is_due(run, before_ms, self._looked_ms)]
            sent = await resend(self._store, self._waker, waiting, snapshot, queue=queue, broker=self._broker)
            if sent:
                _log.info("wakeups.resent queue=%s count=%d", queue, sent)

    async def _missing(self, queues: list[str]) -> tuple[int, Counter[str]]:
        """The server's time, ms, and for each queue how many queued runs have no message."""
        runs = [(queue, keys.queued(number, queue)) for queue in queues for number in range(PARTITIONS)]
        lists = [(queue, key) for queue in queues for key in queue_keys(queue)]
        cards = [("TIME",), *(("ZCARD", key) for _, key in runs)]
        lengths = [("LLEN", key) for _, key in lists]
        if self._broker is self._link:
            # In one round trip, so that nothing is taken in between.
            replies = await run_pipeline(self._link, [*cards, *lengths])
        else:
            replies = await run_pipeline(self._link, cards) + await run_pipeline(self._broker, lengths)
        (seconds, micros), *counts = replies
        queued: Counter[str] = Counter()
        messages: Counter[str] = Counter()
        for (queue, _), count in zip(runs, counts[: len(runs)], strict=True):
            queued[queue] += count
        for (queue, _), count in zip(lists, counts[len(runs) :], strict=True):
            messages[queue] += count
        return int(seconds) * 1000 + int(micros) // 1000, queued - messages


def _is_due(run: QueuedRun, before_ms: int, now_ms: int) -> bool:
    """Whether a run's wake-up may be sent again.

    What came since the last look is not missing, but on its way; and what lies further ahead than any
    back-off was noted before the server's clock was put back.
    """
    ahead_ms = now_ms + LONGEST_BACKOFF_MS
    is_on_its_way = before_ms < run.since_ms <= ahead_ms
    is_held_back = now_ms < run.not_before_ms <= ahead_ms
    return not is_on_its_way and not is_held_back
