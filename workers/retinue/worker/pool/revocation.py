"""A Celery revoke, from Flower or `celery control`, is the cancel of the run that the task id names."""

from __future__ import annotations

import logging

from retinue.broker.reaper.reaper import sweep
from retinue.broker.wakeups import Wakes
from retinue.store.call import RunKey
from retinue.store.operations import control, reading
from retinue.worker.process.patience import PatientStore

_log = logging.getLogger("retinue.worker")


async def cancel_by_run_id(store: PatientStore, waker: Wakes, run_id: str) -> None:
    """Cancels a run whose tenant only the store knows: a task id does not carry it.

    Every worker is told of a revoke, so this happens several times; the mark is set once.
    """
    found: str | int | None = 0
    while isinstance(found, int):
        found = await store.run(reading.find_tenant(run_id, place=found))
    if found is None:
        return
    key = RunKey(found, run_id)
    reply = await store.run(control.cancel(key, reason="revoked through Celery"))
    if reply.outcome == "ACCEPTED":
        _log.info("run.revoked run=%s", run_id)
        await sweep(store, waker, key)
