"""A tool's progress messages: news for whoever watches, which must never cost a tool or the store much."""

from __future__ import annotations

import asyncio
import threading

from retinue.contract import StoreError
from retinue.store.operations import noting
from retinue.store.replies import Stale
from retinue.store.store import AsyncStore
from retinue.worker.run.held import HeldRun


class ProgressLine:
    """Sends the messages of one call, one at a time: of those that come meanwhile only the latest.

    Args:
        store: One that does not wait: a message that it does not take is dropped.
        run: The run.
        index: The call within its response.
    """

    def __init__(self, store: AsyncStore, run: HeldRun, index: int) -> None:
        self._store = store
        self._run = run
        self._index = index
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._latest: str | None = None
        self._sending = False
        self._task: asyncio.Task[None] | None = None

    def report(self, message: str) -> None:
        """Takes a message, and returns at once. From any OS thread."""
        with self._lock:
            self._latest = message
            if self._sending or self._run.has_left:
                return
            self._sending = True
        try:
            self._loop.call_soon_threadsafe(self._start)
        except RuntimeError:
            return  # the loop is closed: the process is on its way out

    def _start(self) -> None:
        self._task = self._loop.create_task(self._send())

    async def _send(self) -> None:
        while (message := self._next()) is not None:
            note = noting.note_progress(self._run.key, self._run.fence, index=self._index, message=message)
            try:
                if isinstance(await self._store.run(note), Stale):
                    self._run.lose()
            except StoreError:
                continue

    def _next(self) -> str | None:
        with self._lock:
            message, self._latest = self._latest, None
            self._sending = message is not None
            return message
