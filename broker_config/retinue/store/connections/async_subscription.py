"""Waiting for messages on an event loop: one connection for all waiters of the loop."""

import asyncio
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress

from retinue.contract.errors import StoreUnavailableError
from retinue.store.connections import wire
from retinue.store.connections.backoff import Backoff
from retinue.store.connections.connection import Connection
from retinue.store.connections.dial import Dial
from retinue.store.connections.interest import Flag, Interest, Interests, Place
from retinue.store.connections.pulse import LINGER_S, PING_EVERY_S, Pulse
from retinue.store.connections.reaching import reach
from retinue.store.connections.subscription import BACKOFF_FIRST_S, BACKOFF_MAX_S
from retinue.store.connections.wire import ConnectionCut


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
        self.dial = Dial.to(url, client_name=client_name, connect_timeout_s=connect_timeout_s)
        self.linger_s = linger_s
        self.ping_every_s = ping_every_s
        self._closed = False
        self._listeners: dict[asyncio.AbstractEventLoop, _Listener] = {}

    def __repr__(self) -> str:
        return f"AsyncSubscriptions({self.dial.address})"

    def watch(self, channel: str, key: str) -> AbstractAsyncContextManager[AsyncWake]:
        """As ``Subscriptions.watch``."""
        return self.watch_any([(channel, key)])

    @asynccontextmanager
    async def watch_any(
        self, places: Sequence[Place], *, confirm_s: float | None = None
    ) -> AsyncGenerator[AsyncWake]:
        """As ``Subscriptions.watch_any``."""
        flag = asyncio.Event()
        limit_s = self.dial.connect_timeout_s if confirm_s is None else confirm_s
        with self.hook(places, flag) as interest:
            if not interest.confirmed:
                with suppress(TimeoutError):
                    async with asyncio.timeout(limit_s):
                        for channel, _ in interest.spots:
                            await channel.ready.wait()
            if not interest.confirmed:
                flag.set()
            yield AsyncWake(flag)

    @contextmanager
    def hook(self, places: Sequence[Place], flag: Flag) -> Generator[Interest[asyncio.Event]]:
        """Sets a flag of the caller's whenever a watch would wake; waits for no confirmation.

        Args:
            places: As for ``watch_any``; keep a watch on their channels, so that the subscriptions
                stand before the first hook.
            flag: An event, or anything else with its `set`, which is called on the loop.

        Returns:
            A context manager that gives what tells whether the subscriptions are confirmed.

        Raises:
            StoreUnavailableError: The subscriptions were closed.
        """
        listener = self._running()
        interest = listener.add(places, flag)
        try:
            yield interest
        finally:
            listener.remove(interest)

    def hears(self, places: Sequence[Place]) -> bool:
        """As ``Subscriptions.hears``, for the running loop."""
        listener = self._listeners.get(asyncio.get_running_loop())
        return listener is not None and listener.interests.hears(places)

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
            raise StoreUnavailableError(f"{self.dial.address}: the subscriptions are closed")
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
        self._pulse: Pulse | None = None
        self.task = asyncio.get_running_loop().create_task(self._run(), name="retinue-subscriptions")

    def add(self, places: Sequence[Place], flag: Flag) -> Interest[asyncio.Event]:
        interest, new = self.interests.add(places, flag)
        if new:
            self._wanted.set()
            if self._connection is not None:
                self._connection.post(wire.pack(("SUBSCRIBE", *new)))
        return interest

    def remove(self, interest: Interest[asyncio.Event]) -> None:
        self.interests.remove(interest, time.monotonic())

    async def _run(self) -> None:
        backoff = Backoff(BACKOFF_FIRST_S, BACKOFF_MAX_S)
        try:
            while True:
                if self.interests.idle():
                    self._wanted.clear()
                    await self._wanted.wait()
                try:
                    connection = await reach(self._owner.dial, on_push=self._receive)
                except StoreUnavailableError:
                    self.interests.connect_failed()
                    await asyncio.sleep(backoff.next_s())
                    continue
                backoff.reset()
                try:
                    await self._listen(connection)
                except ConnectionCut:
                    pass
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
        pulse = self._pulse = Pulse(owner.ping_every_s, owner.linger_s, time.monotonic())
        while not connection.ended.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(pulse.tick_s):
                    await connection.ended.wait()
            now = time.monotonic()
            if names := self.interests.drop_idle(now - owner.linger_s):
                connection.post(wire.pack(("UNSUBSCRIBE", *names)))
            if pulse.ping_is_due(now):
                connection.post(wire.pack(("PING",)))

    def _receive(self, push: object) -> None:
        if self._pulse is not None:
            self._pulse.heard(time.monotonic())
        self.interests.receive(push)
