"""Streams without HTTP, of runs that a test takes through their states step by step."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from tests.integration.client.store_worker import StoreWorker
from tests.unit.http.sse import Reader

from retinue.broker.settings import Settings
from retinue.contract import SubagentHandle
from retinue.http.service import Service
from retinue.http.streams.opening import EventPage, open_stream, read_page, streams_part
from retinue.http.streams.stream import RunStream
from retinue.store.call import RunKey

DEADLINE_S = 45.0


async def until(is_so: Callable[[], object]) -> None:
    """Returns once something is so in the store."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            if is_so():
                return
            await asyncio.sleep(0.01)


class Opened:
    """A stream that is read by a task of its own.

    Attributes:
        reader: What came so far.
        is_over: The last of it has come.
    """

    def __init__(self, stream: RunStream) -> None:
        self.stream = stream
        self.reader = Reader()
        self.is_over = False
        self._news = asyncio.Event()
        self._task = asyncio.ensure_future(self._read())

    async def until(self, kind: str, count: int = 1) -> None:
        """Returns once so many events of a kind have come."""
        async with asyncio.timeout(DEADLINE_S):
            while self.reader.kinds().count(kind) < count:
                assert not self._task.done(), (self.reader.kinds(), self._task)
                self._news.clear()
                await self._news.wait()

    async def until_comments(self, count: int) -> None:
        """Returns once so many comments have come."""
        async with asyncio.timeout(DEADLINE_S):
            while self.reader.comments < count:
                self._news.clear()
                await self._news.wait()

    async def until_over(self) -> Reader:
        """All that came, once the stream has ended."""
        async with asyncio.timeout(DEADLINE_S):
            await self._task
        return self.reader

    async def close(self) -> None:
        """The client goes away."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _read(self) -> None:
        with self.stream:
            while not self.is_over:
                chunk = await self.stream.next()
                self.reader.feed(chunk.content)
                self.is_over = chunk.is_last
                self._news.set()


class StreamStage:
    """A service with its hub, a facade of the session customer-42, and a worker of store operations."""

    def __init__(self, service: Service, worker: StoreWorker, stack: AsyncExitStack) -> None:
        self.service = service
        self.worker = worker
        self.lifecycle = service.lifecycle("_", "customer-42")
        self._stack = stack

    @property
    def hub(self) -> Any:
        return self.service.hub

    async def launch(self, **request: Any) -> SubagentHandle:
        return await self.lifecycle.launch(**{"agent": "support", "goal": "help"} | request)

    async def open(
        self, run: SubagentHandle | str, *, after: int = 0, whole_tree: bool = True, deltas: bool = False
    ) -> Opened | None:
        """The stream of a run, being read."""
        stream = await open_stream(
            self.service, self.key(run), after=after, whole_tree=whole_tree, takes_news=deltas
        )
        if stream is None:
            return None
        opened = Opened(stream)
        self._stack.push_async_callback(opened.close)
        return opened

    async def opened(self, run: SubagentHandle | str, **options: Any) -> Opened:
        """As `open`, where something is left to be sent."""
        found = await self.open(run, **options)
        assert found is not None
        return found

    async def page(
        self, run: SubagentHandle | str, *, after: int = 0, limit: int = 50, whole_tree: bool = True
    ) -> EventPage:
        """A page of a run's events."""
        return await read_page(self.service, self.key(run), after=after, limit=limit, whole_tree=whole_tree)

    async def log(self, run: SubagentHandle) -> list[int]:
        """Every sequence number of a tree's log."""
        return [event.sequence async for event in self.lifecycle.events(run)]

    def key(self, run: SubagentHandle | str) -> RunKey:
        return RunKey("_", run if isinstance(run, str) else run.subagent_id)

    def log_key(self, run: SubagentHandle) -> str:
        (name,) = self.worker.link.execute("KEYS", f"retinue:*tree:{run.subagent_id}:ev")
        return name.decode()


@asynccontextmanager
async def stream_stage(url: str, **http: Any) -> AsyncGenerator[StreamStage]:
    """The stage over a store; `http` are members of the settings' section `http`."""
    service = Service(Settings.read(store_url=url, http=http))
    worker = StoreWorker(url)
    worker.advertise("support", "researcher", model="gpt-5-mini", provider="openai")
    async with AsyncExitStack() as stack:
        stack.push_async_callback(service.close)
        stack.callback(worker.close)
        await stack.enter_async_context(streams_part(service))
        yield StreamStage(service, worker, stack)
