"""Sending wake-ups again, to where a live worker can run what they name."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from retinue.broker.backlog import QueuedRun
from retinue.broker.catalogue import CatalogueSnapshot
from retinue.broker.each_run import each_run
from retinue.broker.wakeups import Wakes
from retinue.store import control
from retinue.store.call import RunKey
from retinue.store.record import WakeUp
from retinue.store.store import AsyncStore

FIRST_BACKOFF_MS: Final = 2_000
"""How long a run that was woken again is left alone; twice as long after each further time."""

LONGEST_BACKOFF_MS: Final = 60_000


async def resend(
    store: AsyncStore, waker: Wakes, runs: Sequence[QueuedRun], snapshot: CatalogueSnapshot
) -> int:
    """Sends new wake-ups; runs in their back-off, and those that no live worker can run, get none.

    Returns:
        How many were sent.

    Raises:
        StoreError: The store could not be asked.
    """
    able = {run.member: run.agent for run in runs if snapshot.can_run(run.agent)}

    async def rewake(run: RunKey) -> WakeUp | None:
        call = control.rewake(run, first_ms=FIRST_BACKOFF_MS, longest_ms=LONGEST_BACKOFF_MS)
        wakeup = await store.run(call)
        return wakeup and replace(wakeup, queue=_queue_towards(snapshot, wakeup.queue, able[run.member]))

    wakeups = await each_run(list(able), rewake)
    if wakeups:
        await waker.send(*wakeups)
    return len(wakeups)


def _queue_towards(snapshot: CatalogueSnapshot, queue: str, agent: str) -> str:
    serving = [worker for worker in snapshot.workers.values() if queue in worker.queues]
    if serving and all(not agent or agent in worker.agents for worker in serving):
        return queue
    # Nobody serves the queue, or a worker that cannot run the agent may take the message from it.
    capable = snapshot.capable_workers(agent) or list(snapshot.workers.values())
    return random.choice(capable).private_queue
