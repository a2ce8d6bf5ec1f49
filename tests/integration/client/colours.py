"""The facade in both colours under one face, so that each contract test is written once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from typing import Any

from retinue.client import AsyncSubagentLifecycle, SubagentLifecycle


class LoopThread:
    """An event loop on an OS thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Any], timeout_s: float = 90) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(timeout_s)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(30)
        self.loop.close()


class Blocking:
    """An asynchronous facade, called from plain code."""

    def __init__(self, facade: AsyncSubagentLifecycle, thread: LoopThread) -> None:
        self.facade = facade
        self._thread = thread

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.facade, name)

        def call(*args: object, **keywords: object) -> Any:
            async def inside() -> Any:
                return await method(*args, **keywords)

            return self._thread.run(inside())

        return call

    def events(self, *args: object, **keywords: object) -> Iterator[Any]:
        async def begin() -> Any:
            return self.facade.events(*args, **keywords)

        async def following(found: Any) -> Any:
            return await anext(found, None)

        found = self._thread.run(begin())
        return iter(lambda: self._thread.run(following(found)), None)


AnyFacade = SubagentLifecycle | Blocking
