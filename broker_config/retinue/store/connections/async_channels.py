"""Hearing whole messages on an event loop: one connection for any number of channels.

Apart from async_subscription.py, whose waiters read the state again and need no message.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from retinue.contract.errors import StoreUnavailableError
from retinue.store.connections import wire
from retinue.store.connections.backoff import Backoff
from retinue.store.connections.connection import Connection
from retinue.store.connections.dial import Dial
from retinue.store.connections.pulse import PING_EVERY_S, Pulse
from retinue.store.connections.reaching import reach
from retinue.store.connections.subscription import BACKOFF_FIRST_S, BACKOFF_MAX_S
from retinue.store.connections.wire import ConnectionCut

_LINGER_S: Final = 0.5


class AsyncChannels:
    """Hands on what is published on channels. Nothing is kept for who was not connected.

    It connects while there is a channel to hear, and again after a cut.

    Args:
        url: The server, as ``parse_store_url`` reads it.
        on_message: Called on the loop with a channel's name and each message there.
        on_joined: Called once the server has confirmed a channel, after a cut again.
        client_name: What CLIENT LIST shows; None = nothing.
        connect_timeout_s: Seconds for connecting.

    Raises:
        SettingsError: The URL cannot be read.
    """

    def __init__(
        self,
        url: str,
        *,
        on_message: Callable[[str, bytes], None],
        on_joined: Callable[[str], None],
        client_name: str | None = None,
        connect_timeout_s: float = 3.0,
    ) -> None:
        self.dial = Dial.to(url, client_name=client_name, connect_timeout_s=connect_timeout_s)
        self._on_message = on_message
        self._on_joined = on_joined
        self._names: set[str] = set()
        self._changed = asyncio.Event()
        self._connection: Connection | None = None
        self._pulse: Pulse | None = None
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"AsyncChannels({self.dial.address})"

    def join(self, name: str) -> None:
        """Hears a channel from soon on. On the loop only."""
        self._names.add(name)
        if self._connection is not None:
            self._connection.post(wire.pack(("SUBSCRIBE", name)))
        self._changed.set()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="retinue-channels")

    def leave(self, name: str) -> None:
        """Hears a channel no more. On the loop only."""
        self._names.discard(name)
        if self._connection is not None:
            self._connection.post(wire.pack(("UNSUBSCRIBE", name)))
        self._changed.set()

    async def close(self) -> None:
        """Ends the connection; final."""
        self._names.clear()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        backoff = Backoff(BACKOFF_FIRST_S, BACKOFF_MAX_S)
        while True:
            while not self._names:
                self._changed.clear()
                await self._changed.wait()
            try:
                connection = await reach(self.dial, on_push=self._receive)
            except StoreUnavailableError:
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

    async def _listen(self, connection: Connection) -> None:
        self._connection = connection
        if self._names:
            connection.post(wire.pack(("SUBSCRIBE", *self._names)))
        pulse = self._pulse = Pulse(PING_EVERY_S, _LINGER_S, time.monotonic())
        while self._names and not connection.ended.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(pulse.tick_s):
                    await connection.ended.wait()
            if pulse.ping_is_due(time.monotonic()):
                connection.post(wire.pack(("PING",)))

    def _receive(self, push: object) -> None:
        if self._pulse is not None:
            self._pulse.heard(time.monotonic())
        match push:
            case [b"message", bytes(name), bytes(message)]:
                self._on_message(name.decode(), message)
            case [b"subscribe", bytes(name), int()]:
                self._on_joined(name.decode())
            case _:
                pass
