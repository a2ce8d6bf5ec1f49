"""Waiting for the first of several runs with one flag."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress

from retinue.store.async_subscription import AsyncSubscriptions, AsyncWake
from retinue.store.interest import Channel
from retinue.store.subscription import Subscriptions, Wake


class SharedSubscriptions(Subscriptions):
    """Subscriptions on which one waiter can watch any number of keys."""

    @contextmanager
    def watch_any(self, places: Sequence[tuple[str, str]]) -> Generator[Wake]:
        """As `watch`, woken by a message for any of the places.

        Args:
            places: Channel and key of each.
        """
        flag = threading.Event()
        listener = self._running()
        words = [(channel.encode(), key.encode()) for channel, key in places]
        entries = [(listener.add(channel, key, flag), key) for channel, key in words]
        try:
            for entry, _ in entries:
                entry.ready.wait(self.connect_timeout_s)
            if not all(entry.confirmed for entry, _ in entries):
                flag.set()
            yield Wake(flag)
        finally:
            for entry, key in entries:
                listener.remove(entry, key, flag)


class AsyncSharedSubscriptions(AsyncSubscriptions):
    """Mirrors `SharedSubscriptions`."""

    @asynccontextmanager
    async def watch_any(self, places: Sequence[tuple[str, str]]) -> AsyncGenerator[AsyncWake]:
        """Mirrors `SharedSubscriptions.watch_any`."""
        flag = asyncio.Event()
        listener = self._running()
        interests = listener.interests
        entries: list[tuple[Channel[asyncio.Event], bytes]] = []
        for channel, key in places:
            entry, is_new = interests.add(channel.encode(), key.encode(), flag)
            entries.append((entry, key.encode()))
            if is_new:
                listener.subscribe(entry.name)
        try:
            for entry, _ in entries:
                if not entry.ready.is_set():
                    with suppress(TimeoutError):
                        async with asyncio.timeout(self.connect_timeout_s):
                            await entry.ready.wait()
            if not all(entry.confirmed for entry, _ in entries):
                flag.set()
            yield AsyncWake(flag)
        finally:
            for entry, key in entries:
                interests.remove(entry, key, flag, time.monotonic())
