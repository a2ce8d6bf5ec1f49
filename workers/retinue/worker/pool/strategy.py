"""What a worker does with a received wake-up, in place of Celery's Request and tracer."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from typing import Any

from celery import Celery
from celery.worker.state import revoked as revoked_ids

from retinue.broker.envelope import WakeUpKind
from retinue.contract.ids import parse_task_id
from retinue.worker.pool.reports import ReceivedWakeUp
from retinue.worker.pool.requests import RunRequest
from retinue.worker.pool.run_pool import RunPool

_log = logging.getLogger(__name__)

_NONCE = re.compile(r"[0-9a-f-]{1,64}")

Handler = Callable[..., None]


def create_handler(task: Any, app: Celery, consumer: Any) -> Handler:
    """Celery's strategy factory for Retinue's tasks; called again after each reconnect.

    Args:
        task: One of those that name a run.
        app: Its app.
        consumer: The worker's consumer; its event dispatcher is another one after a reconnect.

    Returns:
        The handler of received messages. It never raises.

    Raises:
        TypeError: The worker has another pool.
    """
    pool = _pool_of(consumer)
    pool.attach(consumer)
    kind = WakeUpKind(task.name.rpartition(".")[2])

    def handle(message: Any, body: Any, ack: Any, reject: Any, callbacks: Any) -> None:
        # kombu takes a KeyError from here for a lost connection, and any error ends the worker's loop.
        try:
            request = _read(message, kind, task)
            if request is None:
                _log.error("wakeup.dropped reason=malformed kind=%s", kind.value)
            elif request.id in revoked_ids:
                pool.events.revoked(request, terminated=False)
                pool.revoke(request.wakeup.run_id, terminate=False)
            else:
                pool.submit(request)
        except Exception as error:
            _log.error("wakeup.dropped reason=%s kind=%s", type(error).__name__, kind.value)

    return handle


def create_canary_handler(task: Any, app: Celery, consumer: Any) -> Handler:
    """As `create_handler`, for canaries: what is popped is answered, takes no slot, and is no run."""
    pool = _pool_of(consumer)

    def handle(message: Any, body: Any, ack: Any, reject: Any, callbacks: Any) -> None:
        try:
            nonce = _nonce(message)
            if nonce is None:
                _log.error("canary.dropped reason=malformed")
            else:
                pool.take_canary(nonce)
        except Exception as error:
            _log.error("canary.dropped reason=%s", type(error).__name__)

    return handle


def _pool_of(consumer: Any) -> RunPool:
    pool = consumer.pool
    if not isinstance(pool, RunPool):
        raise TypeError(
            f"Retinue's tasks need retinue.worker.pool.run_pool:RunPool, not {type(pool).__name__}"
        )
    return pool


def _nonce(message: Any) -> str | None:
    """By what a canary's answer is found; None if the message is none of ours."""
    match json.loads(message.body):
        case [[str(nonce)], *_] if _NONCE.fullmatch(nonce):
            return nonce
        case _:
            return None


def _read(message: Any, kind: WakeUpKind, task: Any) -> RunRequest | None:
    """The request of a message; None if it is not one of ours."""
    headers = message.headers
    ids = parse_task_id(headers.get("id"))
    if ids is None or message.content_type != "application/json":
        return None
    match json.loads(message.body):
        case [[str(tenant), str(run_id)], *_] if run_id == ids[0]:
            wakeup = ReceivedWakeUp(tenant, run_id, ids[1], kind, headers["id"])
        case _:
            return None
    return RunRequest(
        wakeup,
        task,
        name=headers.get("shadow") or task.name,
        root_id=headers.get("root_id"),
        parent_id=headers.get("parent_id"),
        message=message,
    )
