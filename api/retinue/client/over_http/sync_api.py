"""The API as plain code asks it: one HTTP client for all facades of a process that ask alike."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from typing import TypeVar

import httpx2

from retinue.client.dispatch.sync_dispatch import refuse_running_loop
from retinue.client.over_http import run_calls
from retinue.client.over_http.address import ApiAddress
from retinue.client.over_http.call import Asked, Course, Known, Pause, Steps
from retinue.client.over_http.exchange import Again, Exchange
from retinue.client.over_http.following import HAS_STREAM, Follower
from retinue.contract import Event, SubagentHandle, SubagentLifecycleError

T = TypeVar("T")

LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=4.0)
"""Every waiter holds a connection, so that their number has no limit; uvicorn ends idle ones after 5 s."""


class SyncApi:
    """Asks the API. Safe to share between OS threads.

    Args:
        address: Where it is, and with which key.
    """

    def __init__(self, address: ApiAddress) -> None:
        self.address = address

    def answer(self, asked: Asked[T]) -> T:
        """The answer to one call.

        Raises:
            SubagentLifecycleError: A refusal; STORE_UNAVAILABLE or LAUNCH_UNKNOWN, where there is no answer;
                WRONG_LOOP: to wait here would stop a running event loop.
        """
        refuse_running_loop()
        if isinstance(asked, Known):
            return asked.value
        exchange = Exchange(self.address, asked)
        while True:
            try:
                found = exchange.answered(self._client().request(**exchange.request()))
            except httpx2.RequestError as error:
                found = exchange.failed(error)
            if not isinstance(found, Again):
                return found.value
            time.sleep(found.seconds)

    def carry_out(self, steps: Steps[T]) -> T:
        """What an operation of several calls comes to.

        Raises:
            SubagentLifecycleError: As `answer`.
        """
        refuse_running_loop()
        course = Course(steps)
        while (step := course.step) is not None:
            if isinstance(step, Pause):
                time.sleep(step.seconds)
                course.answered(None)
                continue
            try:
                found = self.answer(step)
            except SubagentLifecycleError as error:
                course.failed(error)
            else:
                course.answered(found)
        return course.value

    def events(self, handle: SubagentHandle, after: int) -> Iterator[Event]:
        """The events that there are, in order."""
        while True:
            page = self.answer(run_calls.events(handle, after))
            yield from page.events
            if page.reaches <= after:
                return
            after = page.reaches

    def follow(self, handle: SubagentHandle, after: int) -> Iterator[Event]:
        """The events as they come, until the run's end."""
        follower = Follower(self.address, handle, after)
        while not follower.is_over:
            refuse_running_loop()
            try:
                with self._client().stream(**follower.request()) as response:
                    if response.status_code != HAS_STREAM:
                        response.read()
                        pause_s = follower.refused(response)
                    else:
                        for message in httpx2.EventSource(response):
                            event = follower.take(message)
                            if event is not None:
                                yield event
                            if follower.is_over:
                                return
                        pause_s = follower.broken(None)
            except httpx2.RequestError as error:
                pause_s = follower.broken(error)
            time.sleep(pause_s)

    def close(self) -> None:
        """Ends the connections that are shared; the next call makes new ones."""
        with _lock:
            found = _shared.pop(self._key, None)
        if found is not None:
            found.close()

    @property
    def _key(self) -> tuple[str, str | None]:
        return self.address.url, self.address.api_key

    def _client(self) -> httpx2.Client:
        with _lock:
            found = _shared.get(self._key)
            if found is None:
                found = _shared[self._key] = httpx2.Client(limits=LIMITS)
            return found


_shared: dict[tuple[str, str | None], httpx2.Client] = {}
_lock = threading.Lock()


def _after_fork() -> None:
    # The parent's connections are not to be written to here, nor its lock waited for.
    global _lock
    _lock = threading.Lock()
    _shared.clear()


os.register_at_fork(after_in_child=_after_fork)
