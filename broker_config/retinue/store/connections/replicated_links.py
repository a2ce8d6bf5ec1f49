"""Links for `durability = "strict"`: some scripts' calls return once a replica has what they wrote."""

import asyncio
from collections.abc import Sequence
from typing import Any

from retinue.contract.errors import StoreError, StoreUnavailableError
from retinue.store.connections import wire
from retinue.store.connections.acknowledging import ACKNOWLEDGED_SCRIPTS, Acknowledgement
from retinue.store.connections.connection import Connection
from retinue.store.connections.link import AsyncLink
from retinue.store.connections.sync_link import SyncLink
from retinue.store.connections.wire import Argument, ConnectionCut, Reply
from retinue.store.script import Script


class ReplicatedLink(SyncLink):
    """A `SyncLink` that waits for a replica where the loss of a write would be noticed; same arguments.

    What no replica acknowledges raises StoreUnavailableError with `sent`: it stands on the primary, and
    repeating it, which every operation allows, waits again.
    """

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(url, **options)
        self._acknowledgement = Acknowledgement(self.dial.address, self.timeout_s)

    def evalsha(self, script: Script, keys: Sequence[str] = (), argv: Sequence[Argument] = ()) -> Any:
        """As `SyncLink.evalsha`; the write and the wait leave together."""
        if script.name not in ACKNOWLEDGED_SCRIPTS:
            return super().evalsha(script, keys, argv)
        reply, replies = self._write_and_ask(wire.evalsha(script, keys, argv))
        if wire.is_unknown_script(reply):
            reply, replies = self._write_and_ask(wire.eval_body(script, keys, argv))
        if isinstance(reply, StoreError):
            raise reply
        while not self._acknowledgement.is_given(replies):
            replies = self.pipeline(self._acknowledgement.commands())
        return reply

    def _write_and_ask(self, command: tuple[Argument, ...]) -> tuple[Reply, list[Reply]]:
        reply, *replies = self.pipeline([command, *self._acknowledgement.commands()])
        return reply, replies


class AsyncReplicatedLink(AsyncLink):
    """The asynchronous twin of `ReplicatedLink`.

    One wait at a time on a connection, for all who wrote before it began: while no replica answers, the
    connection's other callers are held up by one wait and not by each.
    """

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(url, **options)
        self._acknowledgement = Acknowledgement(self.dial.address, self.dial.timeout_s)
        self._barriers: dict[asyncio.AbstractEventLoop, _Barrier] = {}

    async def evalsha(self, script: Script, keys: Sequence[str] = (), argv: Sequence[Argument] = ()) -> Any:
        """As `AsyncLink.evalsha`; the wait is on the connection that wrote."""
        if script.name not in ACKNOWLEDGED_SCRIPTS:
            return await super().evalsha(script, keys, argv)
        connection = self._ready() or await self._connected()
        try:
            reply = await connection.request(wire.pack(wire.evalsha(script, keys, argv)))
            if wire.is_unknown_script(reply):
                reply = await connection.request(wire.pack(wire.eval_body(script, keys, argv)))
        except ConnectionCut as cut:
            raise wire.lost_reply(self.dial.address, cut) from None
        if isinstance(reply, StoreError):
            raise reply
        await self._barrier(connection).passed()
        return reply

    def _barrier(self, connection: Connection) -> "_Barrier":
        loop = asyncio.get_running_loop()
        barrier = self._barriers.get(loop)
        if barrier is None or barrier.connection is not connection:
            self._barriers = {other: kept for other, kept in self._barriers.items() if not other.is_closed()}
            barrier = self._barriers[loop] = _Barrier(self, connection, self._acknowledgement)
        return barrier


class _Barrier:
    """The waits of one connection, one after the other."""

    def __init__(self, link: AsyncLink, connection: Connection, acknowledgement: Acknowledgement) -> None:
        self._address = link.dial.address
        self.connection = connection
        self._acknowledgement = acknowledgement
        self._running: asyncio.Task[StoreUnavailableError | None] | None = None
        self._next: asyncio.Task[StoreUnavailableError | None] | None = None

    async def passed(self) -> None:
        """Returns once a replica has all that the connection wrote before this call."""
        # One that runs may have begun before the write; the next covers everybody who comes until it begins.
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._wait(after=self._running))
        fault = await asyncio.shield(self._next)
        if fault is not None:
            # Each of those who wait gets an error of its own: callers note in it what they sent.
            raise StoreUnavailableError(fault.message, sent=True, timed_out=fault.timed_out)

    async def _wait(
        self, after: "asyncio.Task[StoreUnavailableError | None] | None"
    ) -> StoreUnavailableError | None:
        if after is not None:
            await asyncio.wait([after])
        self._running, self._next = self._next, None
        try:
            given = False
            while not given:
                commands = self._acknowledgement.commands()
                replies = await self.connection.request(wire.pack_block(commands), len(commands))
                given = self._acknowledgement.is_given(replies)
        except ConnectionCut as cut:
            return wire.lost_reply(self._address, cut)
        except StoreUnavailableError as error:
            return error
        return None
