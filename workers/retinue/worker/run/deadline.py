"""Whether a held run is out of time: its process knows of the deadline only how early it may be."""

from __future__ import annotations

import time

from retinue.store.operations import reading
from retinue.worker.process.patience import PatientStore
from retinue.worker.run.held import HeldRun

_LOOK_AGAIN_S = 1.0
"""Between two looks at a deadline that stands still, however little time is left once it goes on."""


async def out_of_time(store: PatientStore, run: HeldRun) -> bool:
    """Whether the deadline has passed, by the store, which moves it while a human is awaited below the run.

    Asked where the run's own clock says that it may have; else that learns how long to wait until next time.
    """
    if run.seconds_left != 0:
        return False
    view = await store.run(reading.read_status(run.key))
    # Of a run that is gone nothing is in time any more: its end will be refused.
    left_ms = view.record.time_left_ms(view.now_ms) if view else 0
    if left_ms is None:
        run.deadline = None
    elif view is not None and (left_ms or view.record.awaits_human):
        pause_s = _LOOK_AGAIN_S if view.record.awaits_human else 0
        run.deadline = time.monotonic() + max(left_ms / 1000, pause_s)
    else:
        run.is_out_of_time = True
    return run.is_out_of_time
