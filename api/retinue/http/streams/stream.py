"""What one client is sent: its run's events from a place on, up to the run's own end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from retinue.client.reading.reads import FOLLOW_EVERY_S
from retinue.contract import StoreError
from retinue.http.streams.frames import KEEP_ALIVE, end_frame, gap_frame, retry_frame
from retinue.http.streams.hub import StreamHub
from retinue.http.streams.log import Entry, Gap, LogCursor, Part
from retinue.http.streams.subtree import Selection
from retinue.store.call import RunKey
from retinue.store.operations import reading

if TYPE_CHECKING:
    from retinue.http.streams.passing import News
    from retinue.http.streams.watched import WatchedLog
    from retinue.store.store import AsyncStore

CHUNK_BYTES: Final = 16 * 1024
"""Sent at once, and one entry more at the most: what a client that reads nothing can hold up."""
NEWS_BYTES: Final = 64 * 1024
"""Of news that are not kept, waiting to be sent: what does not fit is dropped."""
_READ_BYTES: Final = 64 * 1024
_READ_FIRST: Final = 20
_READ_MOST: Final = 500
_AWAY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class StreamedRun:
    """Which run, and how it stands as the stream begins.

    Args:
        key: The run.
        root_id: Its tree.
        state: In which it has ended; None = it goes on.
        end: The place of its end in the log; None = not known.
    """

    key: RunKey
    root_id: str
    state: str | None
    end: int | None

    @property
    def tree(self) -> tuple[str, str]:
        return self.key.tenant, self.root_id


@dataclass(frozen=True, slots=True)
class Chunk:
    """What is to be sent next, whole events only; nothing comes after the last one."""

    content: bytes
    is_last: bool = False


class RunStream:
    """The events of one run for one client. Enter it, and ask for what is next until that is the last.

    Args:
        hub: The process's.
        store: One that does not wait for a store that is away.
        run: Which run.
        after: The sequence number of the last event that the client has.
        selection: Which of the tree's events.
        keep_alive_s: Seconds without an event after which there is a comment.
        takes_news: Also what is not kept: pieces of text and progress.
        retry_ms: When the client is to connect again.
    """

    def __init__(
        self,
        hub: StreamHub,
        store: AsyncStore,
        run: StreamedRun,
        *,
        after: int,
        selection: Selection,
        keep_alive_s: float,
        takes_news: bool = False,
        retry_ms: int = 2_000,
    ) -> None:
        self.run = run
        self._hub = hub
        self._store = store
        self._shown = after
        self._selection = selection
        self._keep_alive_s = keep_alive_s
        self._takes_news = takes_news
        self._cursor = LogCursor(*run.tree, 0 if selection.reads_from_start else after)
        self._state = run.state
        self._is_over = run.state is not None
        self._is_finished = False
        self._pending: deque[bytes] = deque([retry_frame(retry_ms)])
        self._news: deque[bytes] = deque()
        self._news_bytes = 0
        self._flag = asyncio.Event()
        self._log: WatchedLog | None = None
        self._generation = 0
        self._reads_itself = True
        self._not_before = 0.0
        self._check_is_due = False
        self._read_most = _READ_FIRST
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(self._hub.counted(self._flag))
        if self._takes_news:
            self._stack.enter_context(self._hub.news.listening(self.run.tree, self._offer))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    async def next(self) -> Chunk:
        """Waits for something to send: events, news, or the time for a comment."""
        clock = asyncio.get_running_loop().time
        due = clock() + self._keep_alive_s
        if self._check_is_due:
            await self._check()
        while not self._pending:
            self._flag.clear()
            if self._is_finished or self._hub.is_stopping:
                return Chunk(b"", is_last=True)
            await self._go_on()
            self._take_news()
            now = clock()
            if self._pending or self._is_finished or self._must_read(now):
                continue
            if now >= due:
                self._check_is_due = True
                return Chunk(KEEP_ALIVE)
            wakes = min(due, self._not_before) if self._reads_itself else due
            await self._wait(wakes - now)
        return self._chunk()

    def _chunk(self) -> Chunk:
        content, size = [], 0
        while self._pending and size < CHUNK_BYTES:
            content.append(self._pending.popleft())
            size += len(content[-1])
        return Chunk(b"".join(content), is_last=self._is_finished and not self._pending)

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._flag.wait()
        except TimeoutError:
            pass

    def _must_read(self, now: float) -> bool:
        return self._reads_itself and now >= self._not_before

    async def _go_on(self) -> None:
        """Takes what others have read of the log, or reads on itself."""
        if self._log is not None and not self._reads_itself:
            entries = self._log.since(self._cursor.after, self._generation, self._read_most)
            if entries is not None:
                for entry in entries:
                    self._cursor.follow(entry)
                self._show(entries)
                return
            self._reads_itself = True
            self._generation = self._log.generation
        now = asyncio.get_running_loop().time()
        if now < self._not_before:
            return
        most = self._read_most
        try:
            part = await self._hub.read(self._cursor, most)
        except StoreError:
            # The client is none the wiser: there are comments until the store is back.
            self._not_before = now + _AWAY_S
            return
        self._take(part, most)

    def _take(self, part: Part, most: int) -> None:
        if part.gap is not None:
            self._tell(part.gap)
        self._show(part.entries)
        if part.entries:
            average = sum(len(entry.frame) for entry in part.entries) // len(part.entries)
            self._read_most = max(1, min(_READ_MOST, _READ_BYTES // average))
        if not (part.gap or part.falls_short or self._is_finished) and len(part.entries) < most:
            self._caught_up()

    def _caught_up(self) -> None:
        """All that the log holds has been read."""
        if self._shown > self._cursor.after:
            self._tell(Gap(self._cursor.after + 1, self._shown, self._cursor.after))
        if self._is_over:
            self._end()
            return
        self._reads_itself = False
        if self._log is None:
            watching = self._hub.watching(self.run.tree, self._cursor, self._flag)
            self._log = self._stack.enter_context(watching)
            self._generation = self._log.generation
        elif self._log.since(self._cursor.after, self._generation, 1) is None:
            # The log ends before the place that the hub is at: it will notice.
            self._reads_itself = True
            self._not_before = asyncio.get_running_loop().time() + FOLLOW_EVERY_S

    def _show(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if self._is_finished:
                return
            if self._selection.admits(entry) and entry.sequence > self._shown:
                self._pending.append(entry.frame)
            self._shown = max(self._shown, entry.sequence)
            self._is_finished = entry.ends(self.run.key.run_id)

    def _tell(self, gap: Gap) -> None:
        self._pending.append(gap_frame(gap))
        self._shown = min(self._shown, gap.resumes_after)
        end = self.run.end
        if gap.last is None:
            self._end()
        elif end is not None and gap.resumes_after >= end:
            self._is_finished = True

    def _end(self) -> None:
        self._pending.append(end_frame(self.run.key.run_id, self._state))
        self._is_finished = True

    async def _check(self) -> None:
        """Whether the run has ended without a word in the log: that was lost, or the hub hangs."""
        self._check_is_due = False
        try:
            view = await self._store.run(reading.read_state(self.run.key))
        except StoreError:
            return  # asked again with the next comment
        if view is None or view.record.is_terminal:
            self._is_over, self._reads_itself = True, True
            self._state = None if view is None else view.state.value

    def _offer(self, news: News) -> None:
        if not self._selection.admits_run(news.run_id) or self._news_bytes + len(news.frame) > NEWS_BYTES:
            return
        self._news.append(news.frame)
        self._news_bytes += len(news.frame)
        self._flag.set()

    def _take_news(self) -> None:
        """Before the events that come after them: what is published of a request precedes its record."""
        if self._news:
            self._pending.extendleft(reversed(self._news))
            self._news.clear()
            self._news_bytes = 0
