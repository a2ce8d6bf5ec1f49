"""The asynchronous link to the store: one connection per event loop, many callers.

redis.asyncio spends most of a run's CPU; here the commands of one loop tick leave in one write and
hiredis parses what comes back.
"""

import asyncio
import os
import random
from collections.abc import Sequence
from typing import Any

from retinue.contract.errors import StoreError, StoreUnavailableError
from retinue.store import wire
from retinue.store.connection import Connection, ConnectionCut, ReplyTimeout, open_connection
from retinue.store.script import Script
from retinue.store.urls import ServerAddress
from retinue.store.wire import Argument, Reply

_BACKOFF_FIRST_S = 0.05
_BACKOFF_MAX_S = 1.0


class AsyncLink:
    """Talks to one Redis or Valkey server from any number of asyncio tasks.

    It connects at the first use and again, with back-off, at the first use after a cut. It may be used
    from several event loops; each has its own connection.

    Args:
        url: The server, as ``ServerAddress.parse`` reads it.
        client_name: What CLIENT LIST shows; None = nothing.
        connect_timeout_s: Seconds for connecting, greeting included.
        timeout_s: Seconds for each reply; a connection that takes longer is dropped.
        retries: How often ``execute`` and ``evalsha`` send a command again whose reply was lost in a
            cut; 0 = never. Only safe because every mutating script recognises a repeat.

    Raises:
        SettingsError: The URL cannot be read.
    """

    def __init__(
        self,
        url: str,
        *,
        client_name: str | None = None,
        connect_timeout_s: float = 3.0,
        timeout_s: float = 10.0,
        retries: int = 1,
    ) -> None:
        self.address = ServerAddress.parse(url)
        self.client_name = wire.client_name_for(client_name)
        self.connect_timeout_s = connect_timeout_s
        self.timeout_s = timeout_s
        self.retries = retries
        self.round_trips = 0
        """Writes to the socket so far."""
        self.commands = 0
        """Commands sent so far, repeats included."""
        self._closed = False
        self._lanes: dict[asyncio.AbstractEventLoop, _Lane] = {}
        self._lane: _Lane | None = None

    def __repr__(self) -> str:
        return f"AsyncLink({self.address})"

    @property
    def connected(self) -> bool:
        """Whether the connection last used is up."""
        return self._lane is not None and self._lane.connected

    async def execute(self, *args: Argument) -> Any:
        """Run one command.

        Args:
            args: Its name and arguments.

        Returns:
            The reply: bytes, int, None or a list of these. Bytes are not decoded.

        Raises:
            StoreUnavailableError: The server cannot be reached, cannot serve now, or the connection
                was cut before the reply came; then the command may have run.
            StoreMemoryError: The server is at its memory limit.
            StoreReplyError: Any other error reply.
        """
        return await self._call(wire.pack(args))

    async def evalsha(self, script: Script, keys: Sequence[str] = (), argv: Sequence[Argument] = ()) -> Any:
        """Run a script by its digest; a server that does not know it is taught.

        Args:
            script: The script.
            keys: Its KEYS.
            argv: Its ARGV.

        Returns:
            The reply, as ``execute`` gives it.

        Raises:
            StoreError: As ``execute`` does, also for what fails inside the script.
        """
        try:
            return await self._call(wire.pack(wire.evalsha(script, keys, argv)))
        except StoreError as error:
            if not wire.is_unknown_script(error):
                raise
        return await self._call(wire.pack(wire.eval_body(script, keys, argv)))

    async def pipeline(self, commands: Sequence[tuple[Any, ...]]) -> list[Reply]:
        """Run several commands in one write, without a transaction.

        A tuple ``(script, keys, argv)`` calls a script. Those that the server does not know are sent
        again with their body after the rest.

        Args:
            commands: Each a tuple of name and arguments, or of script, keys and argv.

        Returns:
            The replies in order; an error reply stands in its place as an exception.

        Raises:
            StoreUnavailableError: The connection failed; any of the commands may have run. A pipeline
                is never repeated.
        """
        if not commands:
            return []
        replies = await self._send_block(wire.pack_block(commands), len(commands))
        unknown = [at for at, reply in enumerate(replies) if wire.is_unknown_script(reply)]
        if unknown:
            bodies = wire.pack_block([commands[at] for at in unknown], with_body=True)
            for at, reply in zip(unknown, await self._send_block(bodies, len(unknown)), strict=True):
                replies[at] = reply
        return replies

    async def close(self) -> None:
        """End all connections; whoever waits for a reply gets StoreUnavailableError. Final."""
        self._closed = True
        here = asyncio.get_running_loop()
        for loop, lane in list(self._lanes.items()):
            if loop is here:
                await lane.close()
            elif not loop.is_closed():
                loop.call_soon_threadsafe(lane.drop)
        self._lanes.clear()
        self._lane = None

    async def _call(self, packed: bytes) -> Any:
        left = self.retries
        while True:
            connection = await self._connection()
            self.commands += 1
            try:
                reply = await connection.request(packed)
            except ConnectionCut as cut:
                if left <= 0 or isinstance(cut, ReplyTimeout) or self._closed:
                    raise StoreUnavailableError(f"{self.address}: {cut}") from None
                left -= 1
                continue
            if isinstance(reply, StoreError):
                raise reply
            return reply

    async def _send_block(self, packed: bytes, count: int) -> list[Reply]:
        connection = await self._connection()
        self.commands += count
        try:
            return await connection.request(packed, count)
        except ConnectionCut as cut:
            raise StoreUnavailableError(f"{self.address}: {cut}") from None

    async def _connection(self) -> Connection:
        loop = asyncio.get_running_loop()
        lane = self._lane
        if lane is None or lane.loop is not loop or lane.pid != os.getpid():
            lane = self._lane_of(loop)
        connection = lane.connection
        if connection is not None and connection.usable:
            return connection
        return await lane.connect()

    def _lane_of(self, loop: asyncio.AbstractEventLoop) -> "_Lane":
        if self._closed:
            raise StoreUnavailableError(f"{self.address}: the link is closed")
        lane = self._lanes.get(loop)
        if lane is None or lane.pid != os.getpid():
            self._lanes = {other: kept for other, kept in self._lanes.items() if not other.is_closed()}
            lane = self._lanes[loop] = _Lane(self, loop)
        self._lane = lane
        return lane

    def count_write(self) -> None:
        """Note one write to the socket."""
        self.round_trips += 1


class _Lane:
    """The link's part on one event loop: its connection and the one attempt to make it."""

    def __init__(self, link: AsyncLink, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.pid = os.getpid()
        self.connection: Connection | None = None
        self._link = link
        self._attempt: asyncio.Task[Connection | str] | None = None
        self._failures = 0
        self._not_before = 0.0

    @property
    def connected(self) -> bool:
        return self.connection is not None and self.connection.usable

    async def connect(self) -> Connection:
        # The attempt belongs to the lane, not to the first who asked: that one may be cancelled.
        attempt = self._attempt
        if attempt is None:
            attempt = self._attempt = self.loop.create_task(self._connect())
        await asyncio.wait([attempt])
        outcome = f"{self._link.address}: the link was closed" if attempt.cancelled() else attempt.result()
        if isinstance(outcome, str):
            raise StoreUnavailableError(outcome)
        return outcome

    async def _connect(self) -> "Connection | str":
        link = self._link
        try:
            delay_s = self._not_before - self.loop.time()
            if delay_s > 0:
                await asyncio.sleep(delay_s)
            connection = await open_connection(
                link.address,
                client_name=link.client_name,
                connect_timeout_s=link.connect_timeout_s - max(0.0, delay_s),
                timeout_s=link.timeout_s,
                on_write=link.count_write,
            )
        except StoreUnavailableError as error:
            backoff_s = min(_BACKOFF_FIRST_S * 2**self._failures, _BACKOFF_MAX_S, link.connect_timeout_s / 2)
            self._not_before = self.loop.time() + backoff_s * random.uniform(0.5, 1.0)
            self._failures = min(self._failures + 1, 10)
            return str(error)
        else:
            self._failures = 0
            self.connection = connection
            return connection
        finally:
            self._attempt = None

    async def close(self) -> None:
        attempt = self._attempt
        self.drop()
        if attempt is not None:
            await asyncio.wait([attempt])

    def drop(self) -> None:
        if self._attempt is not None:
            self._attempt.cancel()
        if self.connection is not None:
            self.connection.abort(ConnectionCut("the link was closed"))
            self.connection = None
