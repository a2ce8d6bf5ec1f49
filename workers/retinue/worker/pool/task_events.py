"""Celery's events for runs, as Flower reads them: agent names, ids and outcomes, never a text of a run."""

from __future__ import annotations

import time
from typing import Any, Final

from retinue.worker.pool.reports import Failed, Revoked, Succeeded, TaskReport
from retinue.worker.pool.requests import RunRequest

_BUFFER_LIMIT: Final = 512
_FLUSH_S: Final = 0.05
"""How long an event may wait for others, in seconds. Celery would publish once per round of its loop, which
costs a round trip on the hub's thread for nearly every wake-up: two thirds of that thread's time."""


class TaskEvents:
    """Sends task events through the worker's own dispatcher; from the hub's thread only."""

    def __init__(self) -> None:
        self._consumer: Any = None
        self._flush_is_due = False

    def attach(self, consumer: Any) -> None:
        """Send through this consumer's dispatcher, which is another object after each reconnect."""
        self._consumer = consumer
        if consumer.event_dispatcher is not None:
            consumer.event_dispatcher.buffer_limit = _BUFFER_LIMIT
            consumer.event_dispatcher.on_send_buffered = self._flush_soon
            self._flush_is_due = False  # a timer of the old connection's is gone

    def received(self, request: RunRequest) -> None:
        """The wake-up was popped."""
        self._send(
            "task-received",
            uuid=request.id,
            name=request.name,
            args=request.argsrepr,
            kwargs="{}",
            root_id=request.root_id,
            parent_id=request.parent_id,
            retries=0,
            eta=None,
            expires=None,
        )

    def started(self, request: RunRequest) -> None:
        """The wake-up has a slot."""
        self._send("task-started", uuid=request.id)

    def ended(self, request: RunRequest, report: TaskReport) -> None:
        """The task is over."""
        match report:
            case Succeeded(line):
                runtime_s = time.monotonic() - request.started_mono
                self._send("task-succeeded", uuid=request.id, result=line, runtime=runtime_s)
            case Failed(classification):
                self._send("task-failed", uuid=request.id, exception=str(classification), traceback="")
            case Revoked():
                self.revoked(request, terminated=True)

    def revoked(self, request: RunRequest, *, terminated: bool) -> None:
        """The run is under a cancel; with name and arguments, as the wake-up may never have started."""
        self._send(
            "task-revoked",
            uuid=request.id,
            name=request.name,
            args=request.argsrepr,
            kwargs="{}",
            root_id=request.root_id,
            parent_id=request.parent_id,
            terminated=terminated,
            signum=None,
            expired=False,
        )

    def flush(self) -> None:
        """Send what is buffered, for when no loop will do it."""
        dispatcher = self._dispatcher()
        if dispatcher is not None:
            dispatcher.flush()

    def _flush_soon(self) -> None:
        if not self._flush_is_due:
            self._flush_is_due = True
            self._consumer.hub.call_later(_FLUSH_S, self._flush_now)

    def _flush_now(self) -> None:
        self._flush_is_due = False
        self.flush()

    def _send(self, kind: str, **fields: Any) -> None:
        dispatcher = self._dispatcher()
        if dispatcher is not None:
            dispatcher.send(kind, **fields)

    def _dispatcher(self) -> Any:
        dispatcher = getattr(self._consumer, "event_dispatcher", None)
        return dispatcher if dispatcher is not None and dispatcher.enabled else None
