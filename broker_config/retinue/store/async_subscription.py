"""Waiting for messages on an event loop: one connection for all waiters of the loop."""

import asyncio
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import cast

from retinue.contract.errors import StoreUnavailableError
from retinue.store import wire
from retinue.store.connection import Connection, ConnectionCut, open_connection
from retinue.store.interest import Flag, Interests
from retinue.store.subscription import BACKOFF_FIRST_S, BACKOFF_MAX_S, LINGER_S, PING_EVERY_S
from retinue.store.urls import ServerAddress


class AsyncWake:
    """The asynchronous twin of ``Wake``."""

    __slots__ = ("_flag",)

    def __init__(self, flag: asyncio.Event) -> None:
        self._flag = flag

    async def wait(self, timeout_s: float | None = None) -> bool:
        """As ``Wake.wait``."""
        if not self._flag.is_set():
            try:
                async with asyncio.timeout(timeout_s):
                    await self._flag.wait()
            except TimeoutError:
                return False
        self._flag.clear()
        return True


class AsyncSubscriptions:
    """The asynchronous twin of ``Subscriptions``; on each event loop it has a connection of its own.

    Args:
        url: As for ``Subscriptions``, and so are the others.
    """

    def __init__(
        self,
        url: str,
        *,
        client_name: str | None = None,
        connect_timeout_s: float = 3.0,
        linger_s: float = LINGER_S,
        ping_every_s: float = PING_EVERY_S,
    ) -> None:
        self.address = ServerAddress.parse(url)
        self.client_name = wire.client_name_for(client_name)
        self.connect_timeout_s = connect_timeout_s
        self.linger_s = linger_s
        self.ping_every_s = ping_every_s
        self._closed = False
        self._listeners: dict[asyncio.AbstractEventLoop, _Listener] = {}

    def __repr__(self) -> str:
        return f"AsyncSubscriptions({self.address})"

    @asynccontextmanager
    async def watch(self, channel: str, key: str) -> AsyncGenerator[AsyncWake]:
        """As ``Subscriptions.watch``."""
        flag = asyncio.Event()
        listener, word = self._running(), key.encode()
        interests = listener.interests
        entry, new = interests.add(channel.encode(), word, flag)
        try:
            if new:
                listener.subscribe(entry.name)
            if not entry.ready.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(self.connect_timeout_s):
                        await entry.ready.wait()
            if not entry.confirmed:
                flag.set()
            yield AsyncWake(flag)
        finally:
            interests.remove(entry, word, flag, time.monotonic())

    @contextmanager
    def hook(self, channel: str, key: str, flag: Flag) -> Generator[None]:
        """Sets a flag of the caller's whenever a watch would wake; waits for no confirmation.

        Args:
            channel: Where; keep a watch on it, so that the subscription stands before the first hook.
            key: The first word of the messages.
            flag: Anything with an event's `set`, called on the loop.
        """
        listener, word = self._running(), key.encode()
        event = cast("asyncio.Event", flag)  # only its `set` is ever called
        entry, new = listener.interests.add(channel.encode(), word, event)
        if new:
            listener.subscribe(entry.name)
        try:
            yield
        finally:
            listener.interests.remove(entry, word, event, time.monotonic())

    async def close(self) -> None:
        """As ``Subscriptions.close``."""
        self._closed = True
        here = asyncio.get_running_loop()
        for loop, listener in list(self._listeners.items()):
            if loop is here:
                listener.task.cancel()
                await asyncio.wait([listener.task])
            elif not loop.is_closed():
                loop.call_soon_threadsafe(listener.task.cancel)
        self._listeners.clear()

    def _running(self) -> "_Listener":
        if self._closed:
            raise StoreUnavailableError(f"{self.address}: the subscriptions are closed")
        loop = asyncio.get_running_loop()
        listener = self._listeners.get(loop)
        if listener is None or listener.task.done():
            self._listeners = {
                other: kept for other, kept in self._listeners.items() if not other.is_closed()
            }
            listener = self._listeners[loop] = _Listener(self)
        return listener


class _Listener:
    """The task of one event loop that connects, subscribes and keeps the connection alive."""

    def __init__(self, owner: AsyncSubscriptions) -> None:
        self.interests: Interests[asyncio.Event] = Interests(asyncio.Event)
        self._owner = owner
        self._connection: Connection | None = None
        self._wanted = asyncio.Event()
        self._heard_at = 0.0
        self.task = asyncio.get_running_loop().create_task(self._run(), name="retinue-subscriptions")

    def subscribe(self, channel: bytes) -> None:
        self._wanted.set()
        if self._connection is not None:
            self._connection.post(wire.pack(("SUBSCRIBE", channel)))

    async def _run(self) -> None:
        failures = 0
        try:
            while True:
                if self.interests.idle():
                    self._wanted.clear()
                    await self._wanted.wait()
                try:
                    connection = await open_connection(
                        self._owner.address,
                        client_name=self._owner.client_name,
                        connect_timeout_s=self._owner.connect_timeout_s,
                        timeout_s=self._owner.connect_timeout_s,
                        on_push=self._receive,
                    )
                except StoreUnavailableError:
                    self.interests.connect_failed()
                    await asyncio.sleep(min(BACKOFF_FIRST_S * 2**failures, BACKOFF_MAX_S))
                    failures = min(failures + 1, 10)
                    continue
                failures = 0
                try:
                    await self._listen(connection)
                finally:
                    self._connection = None
                    connection.abort(ConnectionCut("no longer needed"))
                    self.interests.connection_lost()
        finally:
            self.interests.wake_all()

    async def _listen(self, connection: Connection) -> None:
        owner = self._owner
        self._connection = connection
        if names := self.interests.connected():
            connection.post(wire.pack(("SUBSCRIBE", *names)))
        tick_s = min(owner.ping_every_s, max(owner.linger_s, 0.05))
        self._heard_at = pinged_at = time.monotonic()
        while not connection.ended.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(tick_s):
                    await connection.ended.wait()
            now = time.monotonic()
            if names := self.interests.drop_idle(now - owner.linger_s):
                connection.post(wire.pack(("UNSUBSCRIBE", *names)))
            if now - pinged_at >= owner.ping_every_s:
                if self._heard_at < pinged_at:
                    return
                connection.post(wire.pack(("PING",)))
                pinged_at = now

    def _receive(self, push: object) -> None:
        self._heard_at = time.monotonic()
        self.interests.receive(push)
