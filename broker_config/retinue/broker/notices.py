"""Sending the application's own tasks: the notices that runs have ended."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from retinue.broker.app import create_sender
from retinue.broker.routes import APPLICATION_QUEUE
from retinue.broker.settings import Settings

_log = logging.getLogger(__name__)
_AFTER_FAILURE_S: Final = 2.0
"""How long nothing is sent after the broker took nothing."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A task of the application, to be sent once a run has ended.

    Args:
        run_id: The run; the task's id is made of it, so that a repeat can be told.
        task: The task's registered name.
        queue: Where the application's workers take it from; None = Celery's default queue.
        handle: The run's handle as a mapping: the task's one argument.
    """

    run_id: str
    task: str
    queue: str | None
    handle: Mapping[str, Any] = field(repr=False)

    @property
    def task_id(self) -> str:
        """The same each time that it is sent."""
        return f"{self.run_id}.done"


class Sends(Protocol):
    """Sends notices, as Notifier does."""

    async def send(self, notices: Sequence[Notice]) -> list[Notice]: ...


class Notifier:
    """Sends notices through kombu, one after the other.

    Args:
        settings: Where the broker is.
    """

    def __init__(self, settings: Settings) -> None:
        self._app = create_sender(settings)
        self._lock = asyncio.Lock()
        self._not_before = 0.0

    async def send(self, notices: Sequence[Notice]) -> list[Notice]:
        """Sends notices.

        Returns:
            Those that the broker took; none, for a moment, after it took one not.
        """
        async with self._lock:
            if not notices or time.monotonic() < self._not_before:
                return []
            sent, fault = await asyncio.to_thread(self._publish, notices)
            if fault is not None:
                self._not_before = time.monotonic() + _AFTER_FAILURE_S
                # Only the kind: the text of an error may name the server with its password.
                count = len(notices) - len(sent)
                _log.warning("notices.not_sent count=%d first=%s error=%s", count, notices[0].run_id, fault)
            return sent

    def _publish(self, notices: Sequence[Notice]) -> tuple[list[Notice], str | None]:
        sent: list[Notice] = []
        try:
            with self._app.producer_or_acquire() as producer:
                for notice in notices:
                    self._app.send_task(
                        notice.task,
                        args=(dict(notice.handle),),
                        task_id=notice.task_id,
                        producer=producer,
                        queue=notice.queue or APPLICATION_QUEUE,
                        # A handle is a right; events and logs show the run only.
                        argsrepr=notice.run_id,
                        kwargsrepr="{}",
                        ignore_result=True,
                    )
                    sent.append(notice)
        except Exception as error:
            return sent, type(error).__name__
        return sent, None

    async def close(self) -> None:
        """Closes its connections."""
        await asyncio.to_thread(self._app.close)
