"""Reads the logs of all trees that the streams of one process wait on, over one connection.

A log is not published, only ends are; and a subscription for each tree would cost the store more than looking
at all of them together, four times a second.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from retinue.client.reading.reads import FOLLOW_EVERY_S, chunks
from retinue.contract import StoreError, StoreUnavailableError
from retinue.http.middleware.faults import trace_of
from retinue.http.streams.log import LogCursor, Part
from retinue.http.streams.passing import PassingNews
from retinue.http.streams.watched import WatchedLog
from retinue.store.connections.backoff import Backoff

if TYPE_CHECKING:
    from retinue.store.connections.link import AsyncLink

_log = logging.getLogger("retinue.http")
_ENTRIES_A_READ: Final = 100
_REST: Final = 3
"""A look at all logs is followed by a rest of so many times its length: a quarter of the process at most."""
_READERS: Final = 16
_AWAY_S: Final = 0.5
_AWAY_LONGEST_S: Final = 2.0


class StreamHub:
    """What the streams of one process share.

    Args:
        link: Gives the connection that logs are read over.
        news: What is not kept in logs.
        most: Streams at a time.
    """

    def __init__(self, link: Callable[[], AsyncLink], news: PassingNews, *, most: int) -> None:
        self.news = news
        self.streams = 0
        self.is_stopping = False
        self.reads = 0
        """Looks at all logs so far."""
        self._link = link
        self._most = most
        self._readers = asyncio.Semaphore(_READERS)
        self._logs: dict[tuple[str, str], WatchedLog] = {}
        self._flags: set[asyncio.Event] = set()
        self._away_until = 0.0
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def has_room(self) -> bool:
        """Whether one more stream may be opened."""
        return self.streams < self._most and not self.is_stopping

    @property
    def watched(self) -> int:
        """How many logs are looked at."""
        return len(self._logs)

    @contextmanager
    def counted(self, flag: asyncio.Event) -> Generator[None]:
        """Counts a stream for as long as it lasts.

        Args:
            flag: Set when the process is told to end.
        """
        self.streams += 1
        self._flags.add(flag)
        try:
            yield
        finally:
            self.streams -= 1
            self._flags.discard(flag)

    @contextmanager
    def watching(
        self, tree: tuple[str, str], cursor: LogCursor, flag: asyncio.Event
    ) -> Generator[WatchedLog]:
        """Watches the log of a tree.

        Args:
            tree: Its tenant and root.
            cursor: Where it is watched from, unless it is already.
            flag: Set whenever there is more in the log.
        """
        found = self._logs.get(tree)
        if found is None:
            found = self._logs[tree] = WatchedLog(cursor.copy())
            self._start()
        found.waiting.add(flag)
        try:
            yield found
        finally:
            found.waiting.discard(flag)
            if not found.waiting and self._logs.get(tree) is found:
                del self._logs[tree]
                if not self._logs:
                    self._wanted.clear()

    async def read(self, cursor: LogCursor, most: int) -> Part:
        """What one stream reads for itself, when it begins or has fallen behind.

        Raises:
            StoreError: The store does not answer.
        """
        async with self._readers:
            if time.monotonic() < self._away_until:
                # Not one by one into the same time-out: they would all be late with their comments.
                raise StoreUnavailableError("the store was away a moment ago")
            try:
                part = cursor.take(await self._link().execute(*cursor.next_read(most)))
                if not part.falls_short:
                    return part
                return Part(gap=cursor.fall_back(await self._link().execute(*cursor.length())))
            except StoreUnavailableError:
                self._away_until = time.monotonic() + _AWAY_S
                raise

    def stop(self) -> None:
        """Has every stream end; no other begins."""
        self.is_stopping = True
        for flag in self._flags:
            flag.set()

    async def close(self) -> None:
        """Ends the looking. The connection is not the hub's."""
        self.stop()
        await self.news.close()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def _start(self) -> None:
        self._wanted.set()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="retinue-streams")

    async def _run(self) -> None:
        away, is_away = Backoff(FOLLOW_EVERY_S, _AWAY_LONGEST_S), False
        while True:
            await self._wanted.wait()
            began = time.monotonic()
            try:
                has_more = await self._look()
            except StoreError as error:
                if not is_away:
                    _log.warning("streams.store_away error=%s", type(error).__name__)
                is_away = True
                await asyncio.sleep(away.next_s())
                continue
            except Exception as error:
                # Streams look for themselves with each comment: late is better than never.
                _log.error("streams.look_failed %s", trace_of(error))
                await asyncio.sleep(away.next_s())
                continue
            if is_away:
                _log.info("streams.store_back")
                is_away = False
                away.reset()
            rest_s = _REST * (time.monotonic() - began)
            await asyncio.sleep(rest_s if has_more else max(FOLLOW_EVERY_S, rest_s))

    async def _look(self) -> bool:
        """Reads on in every watched log; whether some of them have more."""
        has_more = False
        short: list[WatchedLog] = []
        for logs in chunks(list(self._logs.values())):
            for log, reply in zip(logs, await self._ask(logs, _next_read), strict=True):
                if isinstance(reply, StoreError):
                    continue
                part = log.cursor.take(reply)
                has_more = has_more or len(part.entries) == _ENTRIES_A_READ
                if part.falls_short:
                    short.append(log)
                else:
                    log.take(part)
        for logs in chunks(short):
            for log, length in zip(logs, await self._ask(logs, _length), strict=True):
                if isinstance(length, int):
                    log.fall_back(length)
        self.reads += 1
        return has_more

    async def _ask(
        self, logs: Sequence[WatchedLog], command: Callable[[WatchedLog], tuple[str | int, ...]]
    ) -> list[Any]:
        replies = await self._link().pipeline([command(log) for log in logs])
        for reply in replies:
            # One that refuses a single key refuses it to the stream as well, and holds up no other.
            if isinstance(reply, StoreUnavailableError):
                raise reply
        return replies


def _next_read(log: WatchedLog) -> tuple[str | int, ...]:
    return log.cursor.next_read(_ENTRIES_A_READ)


def _length(log: WatchedLog) -> tuple[str | int, ...]:
    return log.cursor.length()
