"""Wake-ups that vanished: fewer messages on the broker than queued runs in the store, twice in a row."""

from __future__ import annotations

import logging
import random
from collections import Counter
from dataclasses import replace
from heapq import nsmallest
from typing import Any

from retinue.broker.casualties import Pipelines, Wakes
from retinue.broker.catalogue import AsyncCatalogue, CatalogueSnapshot
from retinue.broker.routes import queue_keys
from retinue.broker.settings import Settings
from retinue.contract import PARTITIONS
from retinue.store import control, keys
from retinue.store.call import RunKey, text
from retinue.store.record import WakeUp
from retinue.store.store import AsyncStore

_log = logging.getLogger("retinue.reaper")
MOST_RESENT = 100
"""Wake-ups sent again per queue and look."""

FIRST_BACKOFF_MS = 2_000
LONGEST_BACKOFF_MS = 60_000


class Shortfall:
    """Compares queued runs with messages and sends the difference again, the longest-queued first.

    Args:
        store, link: The store, for operations and for plain commands.
        broker: The broker's lists.
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
        self._before: Counter[str] = Counter()

    async def look(self) -> None:
        """One comparison; sends again what was missing in this look and in the one before.

        Raises:
            StoreError: The store or the broker could not be asked.
        """
        snapshot = await self._catalogue.snapshot()
        queues = sorted({self._settings.queue, *self._settings.routes.values(), *snapshot.queues})
        queued = await self._queued(queues)
        messages = await self._messages([queue for queue in queues if queued[queue]])
        missing = Counter({queue: queued[queue] - messages[queue] for queue in queues})
        for queue in queues:
            count = min(missing[queue], self._before[queue], MOST_RESENT)
            if count > 0:
                await self._resend(queue, count, snapshot)
        self._before = missing

    async def _queued(self, queues: list[str]) -> Counter[str]:
        places = [(queue, number) for queue in queues for number in range(PARTITIONS)]
        replies = await self._link.pipeline(
            [("ZCARD", keys.queued(number, queue)) for queue, number in places]
        )
        total: Counter[str] = Counter()
        for (queue, _), count in zip(places, _checked(replies), strict=True):
            total[queue] += count
        return total

    async def _messages(self, queues: list[str]) -> Counter[str]:
        lists = [(queue, key) for queue in queues for key in queue_keys(queue)]
        if not lists:
            return Counter()
        replies = await self._broker.pipeline([("LLEN", key) for _, key in lists])
        total: Counter[str] = Counter()
        for (queue, _), count in zip(lists, _checked(replies), strict=True):
            total[queue] += count
        return total

    async def _resend(self, queue: str, count: int, snapshot: CatalogueSnapshot) -> None:
        sent: list[WakeUp] = []
        for run in await self._longest_queued(queue, 2 * count):
            wakeup = await self._store.run(
                control.rewake(run, first_ms=FIRST_BACKOFF_MS, longest_ms=LONGEST_BACKOFF_MS)
            )
            if wakeup is None:
                continue
            target = self._target(wakeup, snapshot)
            if target is None:
                await self._store.run(control.no_worker(run))
                continue
            sent.append(replace(wakeup, queue=target))
            if len(sent) == count:
                break
        if sent:
            await self._waker.send(*sent)
            _log.info("wakeups.resent queue=%s count=%d", queue, len(sent))

    async def _longest_queued(self, queue: str, count: int) -> list[RunKey]:
        replies = await self._link.pipeline(
            [
                ("ZRANGE", keys.queued(number, queue), 0, count - 1, "WITHSCORES")
                for number in range(PARTITIONS)
            ]
        )
        since = [
            (float(score), text(member))
            for reply in _checked(replies)
            for member, score in zip(reply[::2], reply[1::2], strict=True)
        ]
        return [RunKey(*keys.split_member(member)) for _, member in nsmallest(count, since)]

    def _target(self, wakeup: WakeUp, snapshot: CatalogueSnapshot) -> str | None:
        """Where a wake-up finds a worker that can run its agent; None = there is none."""
        capable = snapshot.capable_workers(wakeup.agent)
        if not capable:
            return None
        serving = [worker for worker in snapshot.workers.values() if wakeup.queue in worker.queues]
        if serving and all(wakeup.agent in worker.agents for worker in serving):
            return wakeup.queue
        # Some worker of this queue would take the message and not be able to run it.
        return random.choice(capable).private_queue


def _checked(replies: list[Any]) -> list[Any]:
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies
