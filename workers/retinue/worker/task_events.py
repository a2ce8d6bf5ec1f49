"""Celery's events for runs, as Flower reads them: agent names, ids and outcomes, never a text of a run."""

from __future__ import annotations

import time
from typing import Any, Final

from retinue.worker.reports import Failed, Revoked, Succeeded, TaskReport
from retinue.worker.requests import RunRequest

# The consumer flushes once per round of its loop; Celery's limit of 24 would only flush in between.
_BUFFER_LIMIT: Final = 512


class TaskEvents:
    """Sends task events through the worker's own dispatcher; from the hub's thread only."""

    def __init__(self) -> None:
        self._consumer: Any = None

    def attach(self, consumer: Any) -> None:
        """Send through this consumer's dispatcher, which is another object after each reconnect."""
        self._consumer = consumer
        if consumer.event_dispatcher is not None:
            consumer.event_dispatcher.buffer_limit = _BUFFER_LIMIT

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

    def _send(self, kind: str, **fields: Any) -> None:
        dispatcher = self._dispatcher()
        if dispatcher is not None:
            dispatcher.send(kind, **fields)

    def _dispatcher(self) -> Any:
        dispatcher = getattr(self._consumer, "event_dispatcher", None)
        return dispatcher if dispatcher is not None and dispatcher.enabled else None
