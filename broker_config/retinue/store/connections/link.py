"""The asynchronous link to the store: one connection per event loop, many callers.

redis.asyncio spends most of a run's CPU; here the commands of one loop tick leave in one write and
hiredis parses what comes back.
"""

import asyncio
import os
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from retinue.contract.errors import StoreError, StoreUnavailableError
from retinue.store.connections import wire
from retinue.store.connections.backoff import Backoff
from retinue.store.connections.connection import Connection
from retinue.store.connections.dial import Dial
from retinue.store.connections.reaching import reach
from retinue.store.connections.wire import Argument, ConnectionCut, Reply, ReplyTimeout
from retinue.store.script import Script

_BACKOFF_FIRST_S = 0.05
_BACKOFF_MAX_S = 1.0
_CONNECT_MIN_S = 0.05
_TURNS_TO_READ = 3
"""Turns of the loop in which it reads what has come on a socket, and acts on its end."""


class AsyncLink:
    """Talks to one Redis or Valkey server from any number of asyncio tasks.

    It connects at the first use and again, with back-off, at the first use after a cut. It may be used
    from several event loops; each has its own connection.

    Args:
        url: The server, as ``parse_store_url`` reads it.
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
        self.dial = Dial.to(
            url, client_name=client_name, connect_timeout_s=connect_timeout_s, timeout_s=timeout_s
        )
        self.retries = retries
        self.round_trips = 0
        """Writes to the socket so far."""
        self.commands = 0
        """Commands sent so far, repeats included."""
        self._closed = False
        self._lanes: dict[asyncio.AbstractEventLoop, _Lane] = {}
        self._lane: _Lane | None = None

    def __repr__(self) -> str:
        return f"AsyncLink({self.dial.address})"

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
                was cut before the reply came; then the command may have run, and ``sent`` is True.
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
            late = await self._send_block(bodies, len(unknown), sent=True)
            for at, reply in zip(unknown, late, strict=True):
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
        left, sent = self.retries, False
        while True:
            try:
                connection = self._ready() or await self._connected()
                self.commands += 1
                reply = await connection.request(packed)
                if isinstance(reply, StoreError):
                    raise reply
            except ConnectionCut as cut:
                if left <= 0 or isinstance(cut, ReplyTimeout) or self._closed:
                    raise wire.lost_reply(self.dial.address, cut) from None
                left, sent = left - 1, True
            except StoreUnavailableError as error:
                # That the repeat did not run says nothing of the first.
                error.sent = error.sent or sent
                raise
            else:
                return reply

    async def _send_block(self, packed: bytes, count: int, *, sent: bool = False) -> list[Reply]:
        try:
            connection = self._ready() or await self._connected()
            self.commands += count
            return await connection.request(packed, count)
        except ConnectionCut as cut:
            raise wire.lost_reply(self.dial.address, cut) from None
        except StoreUnavailableError as error:
            error.sent = error.sent or sent
            raise

    def _ready(self) -> Connection | None:
        """The connection of this loop, if it is up; every command asks, so this is no coroutine."""
        lane = self._lane
        if lane is None or lane.loop is not asyncio.get_running_loop() or lane.pid != os.getpid():
            return None
        connection = lane.connection
        return connection if connection is not None and self._is_fit(connection) else None

    def _is_fit(self, connection: Connection) -> bool:
        if not connection.usable or connection.silent:
            return False
        # Who repeats nothing wants to know what was sent: nothing, if the server had hung up before.
        return self.retries > 0 or not connection.has_unread

    async def _connected(self) -> Connection:
        lane = self._lane_of(asyncio.get_running_loop())
        connection = lane.connection
        if connection is not None and connection.has_unread:
            for _ in range(_TURNS_TO_READ):
                await asyncio.sleep(0)
        if connection is not None and self._is_fit(connection):
            return connection
        return await lane.connect()

    def _lane_of(self, loop: asyncio.AbstractEventLoop) -> "_Lane":
        if self._closed:
            raise StoreUnavailableError(f"{self.dial.address}: the link is closed")
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
        self._attempt: asyncio.Task[Connection | StoreUnavailableError] | None = None
        self._backoff = Backoff(_BACKOFF_FIRST_S, min(_BACKOFF_MAX_S, link.dial.connect_timeout_s / 2))
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
        if attempt.cancelled():
            raise StoreUnavailableError(f"{self._link.dial.address}: the link was closed")
        outcome = attempt.result()
        if isinstance(outcome, StoreUnavailableError):
            # Each of those who wait gets an error of its own: callers note in it what they sent.
            raise StoreUnavailableError(outcome.message, mend=outcome.mend)
        return outcome

    async def _connect(self) -> Connection | StoreUnavailableError:
        dial, kept = self._link.dial, self.connection
        ends_at = self.loop.time() + dial.connect_timeout_s
        try:
            if kept is not None and kept.usable and await kept.answers(dial.connect_timeout_s / 2):
                return kept
            if (delay_s := self._not_before - self.loop.time()) > 0:
                await asyncio.sleep(delay_s)
            dial = replace(dial, connect_timeout_s=max(ends_at - self.loop.time(), _CONNECT_MIN_S))
            connection = await reach(dial, on_write=self._link.count_write)
        except StoreUnavailableError as error:
            self._not_before = self.loop.time() + self._backoff.next_s() * random.uniform(0.5, 1.0)
            return error
        else:
            self._backoff.reset()
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
