"""The asynchronous twin of sync_api.py: one HTTP client for all facades of a loop that ask alike."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import TypeVar, cast

import httpx2

from retinue.client.over_http import run_calls
from retinue.client.over_http.address import ApiAddress
from retinue.client.over_http.call import Asked, Course, Known, Pause, Steps
from retinue.client.over_http.exchange import Again, Exchange
from retinue.client.over_http.following import HAS_STREAM, Follower
from retinue.client.over_http.sync_api import LIMITS
from retinue.contract import Event, SubagentHandle, SubagentLifecycleError

T = TypeVar("T")
Messages = AsyncGenerator[httpx2.ServerSentEvent]


class AsyncApi:
    """Mirrors `SyncApi`; it may be shared between event loops."""

    def __init__(self, address: ApiAddress) -> None:
        self.address = address

    async def answer(self, asked: Asked[T]) -> T:
        """Mirrors `SyncApi.answer`."""
        if isinstance(asked, Known):
            return asked.value
        exchange = Exchange(self.address, asked)
        while True:
            try:
                found = exchange.answered(await self._client().request(**exchange.request()))
            except httpx2.RequestError as error:
                found = exchange.failed(error)
            if not isinstance(found, Again):
                return found.value
            await asyncio.sleep(found.seconds)

    async def carry_out(self, steps: Steps[T]) -> T:
        """Mirrors `SyncApi.carry_out`."""
        course = Course(steps)
        while (step := course.step) is not None:
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                course.answered(None)
                continue
            try:
                found = await self.answer(step)
            except SubagentLifecycleError as error:
                course.failed(error)
            else:
                course.answered(found)
        return course.value

    async def events(self, handle: SubagentHandle, after: int) -> AsyncIterator[Event]:
        """Mirrors `SyncApi.events`."""
        while True:
            page = await self.answer(run_calls.events(handle, after))
            for event in page.events:
                yield event
            if page.reaches <= after:
                return
            after = page.reaches

    async def follow(self, handle: SubagentHandle, after: int) -> AsyncIterator[Event]:
        """Mirrors `SyncApi.follow`."""
        follower = Follower(self.address, handle, after)
        while not follower.is_over:
            try:
                async with self._client().stream(**follower.request()) as response:
                    if response.status_code != HAS_STREAM:
                        await response.aread()
                        pause_s = follower.refused(response)
                    else:
                        source = cast("Messages", aiter(httpx2.EventSource(response)))
                        async with aclosing(source) as messages:
                            async for message in messages:
                                event = follower.take(message)
                                if event is not None:
                                    yield event
                                if follower.is_over:
                                    return
                        pause_s = follower.broken(None)
            except httpx2.RequestError as error:
                pause_s = follower.broken(error)
            await asyncio.sleep(pause_s)

    async def close(self) -> None:
        """Mirrors `SyncApi.close`, for the running loop."""
        with _lock:
            found = _shared.pop(self._key(), None)
        if found is not None:
            await found.aclose()

    def _key(self) -> _Key:
        return self.address.url, self.address.api_key, asyncio.get_running_loop()

    def _client(self) -> httpx2.AsyncClient:
        key = self._key()
        with _lock:
            found = _shared.get(key)
            if found is None:
                for other in [other for other in _shared if other[-1].is_closed()]:
                    del _shared[other]
                found = _shared[key] = httpx2.AsyncClient(limits=LIMITS)
            return found


_Key = tuple[str, str | None, asyncio.AbstractEventLoop]
_shared: dict[_Key, httpx2.AsyncClient] = {}
_lock = threading.Lock()


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    _shared.clear()


os.register_at_fork(after_in_child=_after_fork)
