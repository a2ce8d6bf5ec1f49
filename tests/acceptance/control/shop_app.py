"""An application with a Celery app of its own: its task is told of ended runs, and asks what they came to."""

from __future__ import annotations

import json
import os
from typing import Any

from celery import Celery

from retinue.broker.settings import Settings
from retinue.client import SubagentLifecycle

app = Celery("shop", broker=os.environ["SHOP_BROKER"])
app.conf.update(task_ignore_result=True, broker_connection_retry_on_startup=True)


@app.task(name="shop.done", bind=True)
def done(self: Any, handle: dict[str, Any]) -> None:
    """Writes down what it was told, and what the result says."""
    settings = Settings.read(store_url=os.environ["SHOP_STORE"])
    lifecycle = SubagentLifecycle(session_id=handle["parent_session_id"], settings=settings)
    try:
        result = lifecycle.result(handle)
    finally:
        lifecycle.close()
    line = {
        "task": self.request.id,
        "queue": self.request.delivery_info["routing_key"],
        "run": handle["subagent_id"],
        "state": str(result.terminal_state),
        "summary": result.summary,
    }
    with open("done.txt", "a") as told:
        told.write(json.dumps(line) + "\n")
