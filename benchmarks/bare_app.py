"""The Celery application that Retinue is held against: prefork, results in Redis, nothing else."""

from __future__ import annotations

import os

from celery import Celery

app = Celery("bare", broker=os.environ["BARE_URL"], backend=os.environ["BARE_URL"])
app.conf.update(worker_prefetch_multiplier=4, broker_connection_retry_on_startup=True)


@app.task
def noop(value: str) -> str:
    return value
