"""One asynchronous connection: commands of a loop tick leave in one write, replies come in order.

Separate from the link because a connection is used once: it is opened, it works, and after the first
doubt about the order of its replies it is thrown away.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from retinue.contract.errors import StoreUnavailableError
from retinue.store.connections import keepalive, wire
from retinue.store.connections.dial import Dial
from retinue.store.connections.keepalive import Ear, keep_alive
from retinue.store.connections.urls import ServerAddress
from retinue.store.connections.wire import ConnectionCut, ReplyTimeout

_Waiting = tuple["asyncio.Future[Any]", int | None, float]
"""Who waits, for how many replies (None = for one, handed over bare), until when (loop time)."""


class Connection(asyncio.Protocol):
    """Requests in, futures out, strictly first come first served.

    Args:
        loop: The loop it lives on.
        timeout_s: Seconds the server has for each reply before the connection is dropped.
        on_write: Called for each write to the socket.
        on_push: Called with each reply that nobody asked for; None = such a reply ends the connection.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        timeout_s: float,
        on_write: Callable[[], None],
        on_push: Callable[[Any], None] | None = None,
    ) -> None:
        self._loop = loop
        self._timeout_s = timeout_s
        self._on_write = on_write
        self._on_push = on_push
        self._transport: asyncio.Transport | None = None
        self._reader = wire.new_reader()
        self._unsent: list[bytes] = []
        self._waiting: deque[_Waiting] = deque()
        self._collected: list[Any] = []
        self._watchdog: asyncio.TimerHandle | None = None
        self._ended: ConnectionCut | None = None
        self._heard_at = loop.time()
        self._ear: Ear | None = None
        self.ended = asyncio.Event()
        """Set once it is of no more use."""

    @property
    def usable(self) -> bool:
        """Whether commands may still be sent on it."""
        return self._ended is None and self._transport is not None

    @property
    def has_unread(self) -> bool:
        """Whether something has come that the loop has not read yet, while no reply is under way: an end."""
        return not self._waiting and self._ear is not None and self._ear.hears()

    @property
    def silent(self) -> bool:
        """Whether nothing has come for so long that the server may be gone."""
        return self._loop.time() - self._heard_at >= keepalive.ASK_AFTER_S

    async def answers(self, limit_s: float) -> bool:
        """Whether the server is there; one that does not answer a PING ends the connection.

        Args:
            limit_s: Seconds for the answer.
        """
        try:
            async with asyncio.timeout(limit_s):
                await self.request(wire.pack(("PING",)))
        except (TimeoutError, ConnectionCut):
            self.abort(ConnectionCut("the server has gone silent"))
        return self.usable

    def request(self, packed: bytes, count: int | None = None) -> "asyncio.Future[Any]":
        """Send one command, or several as one block.

        Args:
            packed: The commands as they go over the wire.
            count: How many replies belong to them, handed over as a list; None = one, handed over bare.

        Returns:
            A future. Cancelling it gives the reply up, not the connection: its place in the order stays.

        Raises:
            ConnectionCut: Through the future, when the connection ends first.
        """
        future: asyncio.Future[Any] = self._loop.create_future()
        if self._ended is not None:
            future.set_exception(self._ended)
            return future
        self.post(packed)
        deadline = self._loop.time() + self._timeout_s
        self._waiting.append((future, count, deadline))
        if self._watchdog is None:
            self._watchdog = self._loop.call_at(deadline, self._check_oldest)
        return future

    def post(self, packed: bytes) -> None:
        """Send commands whose replies go to ``on_push``.

        Args:
            packed: The commands as they go over the wire.
        """
        if self._ended is not None:
            return
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent.append(packed)

    def abort(self, reason: ConnectionCut) -> None:
        """End it now: whoever waits gets the reason.

        Args:
            reason: What the waiting commands raise.
        """
        if self._ended is not None:
            return
        self._ended = reason
        self.ended.set()
        if self._watchdog is not None:
            self._watchdog.cancel()
            self._watchdog = None
        if self._transport is not None:
            self._transport.abort()
        self._unsent.clear()
        now = self._loop.time()
        waiting, self._waiting = self._waiting, deque()
        for future, _, deadline in waiting:
            if not future.done():
                # Those behind the one that ran out of time did not run out themselves.
                kind = ConnectionCut if deadline > now else type(reason)
                future.set_exception(kind(*reason.args))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's classes, and do the same.
        self._transport = cast("asyncio.Transport", transport)
        opened = transport.get_extra_info("socket")
        self._ear = Ear(opened.fileno())
        if opened.family != getattr(socket, "AF_UNIX", None):
            keep_alive(opened)

    def data_received(self, data: bytes) -> None:
        reader, waiting = self._reader, self._waiting
        self._heard_at = self._loop.time()
        try:
            reader.feed(data)
            while (reply := reader.gets()) is not wire.INCOMPLETE:
                if not waiting:
                    if self._on_push is not None:
                        self._on_push(reply)
                        continue
                    self.abort(ConnectionCut("the server sent a reply that nobody asked for"))
                    return
                future, count, _ = waiting[0]
                if count is None:
                    waiting.popleft()
                    if not future.done():
                        future.set_result(reply)
                else:
                    self._collected.append(reply)
                    if len(self._collected) == count:
                        waiting.popleft()
                        replies, self._collected = self._collected, []
                        if not future.done():
                            future.set_result(replies)
                if wire.drops_connection(reply):
                    self.abort(ConnectionCut(str(reply)))
                    return
        except wire.ProtocolError as error:
            self.abort(ConnectionCut(f"the server does not speak RESP: {error}"))

    def eof_received(self) -> None:
        self.abort(ConnectionCut("the server closed the connection"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.abort(ConnectionCut(f"connection lost: {exc}" if exc else "the server closed the connection"))

    def _flush(self) -> None:
        if self._ended is not None or self._transport is None:
            return
        unsent, self._unsent = self._unsent, []
        self._transport.write(unsent[0] if len(unsent) == 1 else b"".join(unsent))
        self._on_write()

    def _check_oldest(self) -> None:
        # One timer a time-out, not one a command: replies come in order, so the oldest tells.
        self._watchdog = None
        if not self._waiting:
            return
        deadline = self._waiting[0][2]
        if deadline <= self._loop.time():
            self.abort(ReplyTimeout(f"no reply within {self._timeout_s:g} s"))
        else:
            self._watchdog = self._loop.call_at(deadline, self._check_oldest)


async def open_connection(
    dial: Dial,
    address: ServerAddress,
    *,
    on_write: Callable[[], None] = lambda: None,
    on_push: Callable[[Any], None] | None = None,
) -> Connection:
    """Connect to a server and get in.

    Args:
        dial: How.
        address: Where.
        on_write: Called for each write.
        on_push: Called with each reply that nobody asked for, after the greeting.

    Raises:
        StoreUnavailableError: The server cannot be reached, is not ready or refuses the credentials.
    """
    loop = asyncio.get_running_loop()
    connection = Connection(loop, dial.timeout_s, on_write, on_push)
    try:
        async with asyncio.timeout(dial.connect_timeout_s):
            if address.path is not None:
                await loop.create_unix_connection(lambda: connection, address.path)
            else:
                tls = address.tls.context() if address.tls is not None else None
                await loop.create_connection(lambda: connection, address.host, address.port, ssl=tls)
            commands = wire.greeting(address, dial.client_name, ask_role=dial.wants_primary)
            replies = await connection.request(b"".join(map(wire.pack, commands)), len(commands))
        wire.check_greeting(address, commands, replies)
    except BaseException as error:
        connection.abort(ConnectionCut("never got in"))
        if isinstance(error, TimeoutError):
            raise StoreUnavailableError(
                f"{address} does not answer within {dial.connect_timeout_s:g} s"
            ) from None
        if isinstance(error, OSError | ConnectionCut):
            raise StoreUnavailableError(f"{address} cannot be reached: {error}") from None
        raise
    return connection
