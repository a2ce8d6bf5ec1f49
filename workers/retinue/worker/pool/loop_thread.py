"""The event loop of a worker process, in a thread of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_log = logging.getLogger(__name__)


class LoopThread:
    """Runs one asyncio loop until it is closed, whatever the code on it raises."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._closing = False
        self._inbox: deque[Callable[[], object]] = deque()
        self._woken = False

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def post(self, callback: Callable[[], object]) -> None:
        """Call something on the loop, from another thread, in order.

        Callbacks of one burst cost one wake-up of the loop together: each is a write to a socket.
        """
        self._inbox.append(callback)
        if not self._woken:
            self._woken = True
            self.loop.call_soon_threadsafe(self._drain)

    def call(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start a coroutine on the loop, from another thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def close(self, timeout_s: float) -> bool:
        """Stop the loop and release it.

        Returns:
            Whether the thread ended in time. If not, something blocks the loop; the thread is a daemon.
        """
        self._closing = True
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            return False
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()
        return True

    def _drain(self) -> None:
        # First the flag: what comes in after the last look must wake the loop again.
        self._woken = False
        inbox = self._inbox
        while inbox:
            try:
                inbox.popleft()()
            except Exception as error:
                _log.error("loop.callback_failed error=%s", type(error).__name__)

    def _main(self) -> None:
        asyncio.set_event_loop(self.loop)
        while not self._closing:
            try:
                self.loop.run_forever()
            except BaseException as error:  # sys.exit() in some task must not end all the others
                _log.error("loop.interrupted error=%s", type(error).__name__)
