"""A tree's log that streams wait on: read once for all of them. Pure: the hub does the reading."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Final

from retinue.http.streams.log import Entry, LogCursor, Part

KEPT_BYTES: Final = 32 * 1024
"""Of a log's newest entries, as they are sent: who is behind by more reads for itself."""


class WatchedLog:
    """The newest entries of a log, and who wants to hear of more.

    Args:
        cursor: Where the log is read on.

    Attributes:
        generation: Rises when the log turned out to be another than the one read before.
    """

    def __init__(self, cursor: LogCursor) -> None:
        self.cursor = cursor
        self.generation = 0
        self.waiting: set[asyncio.Event] = set()
        self._entries: deque[Entry] = deque()
        self._bytes = 0

    def take(self, part: Part) -> None:
        """Keeps what was read, and wakes the streams."""
        if part.gap is not None:
            self._forget()
        for entry in part.entries:
            self._entries.append(entry)
            self._bytes += len(entry.frame)
        while self._bytes > KEPT_BYTES and len(self._entries) > 1:
            self._bytes -= len(self._entries.popleft().frame)
        if part.gap is not None or part.entries:
            self.wake()

    def fall_back(self, length: int) -> None:
        """The log ends here now, before the place that was read."""
        if self.cursor.fall_back(length) is not None:
            self._forget()
            self.wake()

    def since(self, after: int, generation: int, most: int) -> Sequence[Entry] | None:
        """The entries after a reader's place.

        Args:
            generation: Of the log as the reader knows it.
            most: Entries to give.

        Returns:
            None = the reader has to read for itself.
        """
        if generation != self.generation:
            return None
        if after >= self.cursor.after:
            return ()
        if not self._entries or self._entries[0].sequence > after + 1:
            return None
        first = after + 1 - self._entries[0].sequence
        return list(islice(self._entries, first, first + most))

    def wake(self) -> None:
        """Has every stream look."""
        for flag in self.waiting:
            flag.set()

    def _forget(self) -> None:
        self.generation += 1
        self._entries.clear()
        self._bytes = 0
