"""Sending wake-ups again, to where a live worker can run what they name."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from retinue.broker.catalogue import CatalogueSnapshot, WorkerEntry
from retinue.broker.links import Pipelines, run_pipeline
from retinue.broker.reaper.backlog import QueuedRun
from retinue.broker.reaper.each_run import each_run
from retinue.broker.routes import queue_keys
from retinue.broker.wakeups import Wakes
from retinue.contract import StoreError
from retinue.store.call import RunKey
from retinue.store.operations import control
from retinue.store.record import WakeUp
from retinue.store.store import AsyncStore

_log = logging.getLogger("retinue.reaper")
FIRST_BACKOFF_MS: Final = 2_000
"""How long a run that was woken again is left alone; twice as long after each further time."""

LONGEST_BACKOFF_MS: Final = 60_000

MOST_PRIVATE: Final = 200
"""Messages that may wait in a worker's private queue: all its slots may be busy for hours."""


async def resend(
    store: AsyncStore,
    waker: Wakes,
    runs: Sequence[QueuedRun],
    snapshot: CatalogueSnapshot,
    *,
    queue: str,
    broker: Pipelines | None,
) -> int:
    """Sends new wake-ups; runs in their back-off, and those that no live worker can run, get none.

    Args:
        queue: That the runs wait in.
        broker: Where private queues are; None = not on a Redis, so what waits there is not counted.

    Returns:
        How many were sent.

    Raises:
        StoreError: The store could not be asked.
    """
    able = {run.member: run.agent for run in runs if snapshot.can_run(run.agent)}
    if not able:
        return 0
    ways = _Ways(snapshot, queue)
    if broker is not None and not all(map(ways.is_common, able.values())):
        await ways.count(broker)

    async def rewake(run: RunKey) -> WakeUp | None:
        way = ways.take(able[run.member])
        if way is None:
            return None
        call = control.rewake(run, first_ms=FIRST_BACKOFF_MS, longest_ms=LONGEST_BACKOFF_MS)
        wakeup = await store.run(call)
        if wakeup is None:
            ways.give_back(way)
        return wakeup and replace(wakeup, queue=way)

    wakeups = await each_run(list(able), rewake)
    if wakeups:
        await waker.send(*wakeups)
    return len(wakeups)


class _Ways:
    """The queues by which a wake-up reaches a worker that can run what it names.

    Args:
        snapshot: What workers advertise.
        queue: That the runs wait in.
    """

    def __init__(self, snapshot: CatalogueSnapshot, queue: str) -> None:
        self._queue = queue
        self._snapshot = snapshot
        self._serving = [worker for worker in snapshot.takers if queue in worker.queues]
        self._room: dict[str, int] | None = None

    async def count(self, broker: Pipelines) -> None:
        """Looks how much room there is in the private queues; from now on none is overfilled."""
        names = [worker.private_queue for worker in self._snapshot.takers]
        lists = [(name, key) for name in names for key in queue_keys(name)]
        self._room = dict.fromkeys(names, MOST_PRIVATE)
        try:
            lengths = await run_pipeline(broker, [("LLEN", key) for _, key in lists])
        except StoreError as fault:
            # A broker of its own may be away while the store is not; nothing could be sent anyway.
            _log.warning("private_queues.not_counted error=%s", type(fault).__name__)
            self._room = dict.fromkeys(names, 0)
            return
        for (name, _), length in zip(lists, lengths, strict=True):
            self._room[name] -= length

    def is_common(self, agent: str) -> bool:
        """Whether the queue itself will do: whoever serves it can run the agent."""
        return bool(self._serving) and all(not agent or agent in worker.agents for worker in self._serving)

    def take(self, agent: str) -> str | None:
        """A queue for one more message; None = every worker for it has enough waiting."""
        if self.is_common(agent):
            return self._queue
        # Nobody serves the queue, or a worker that cannot run the agent may take the message from it.
        found = [worker.private_queue for worker in self._candidates(agent)]
        random.shuffle(found)
        if self._room is None:
            return found[0]
        # Where the least waits: one that is frozen does not empty its queue.
        way = max(found, key=self._room.__getitem__)
        if self._room[way] <= 0:
            return None
        self._room[way] -= 1
        return way

    def give_back(self, way: str) -> None:
        """The message was not sent after all."""
        if self._room is not None and way in self._room:
            self._room[way] += 1

    def _candidates(self, agent: str) -> list[WorkerEntry]:
        return self._snapshot.capable_workers(agent) if agent else self._snapshot.takers
