"""The synchronous link to the store: the twin of link.py for plain code, web views and hub threads."""

import os
import queue
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from retinue.contract.errors import StoreError, StoreUnavailableError
from retinue.store.connections import wire
from retinue.store.connections.dial import Dial
from retinue.store.connections.reaching import reach_sync
from retinue.store.connections.sync_connection import SyncConnection
from retinue.store.connections.wire import Argument, ConnectionCut, Reply, ReplyTimeout
from retinue.store.script import Script


class SyncLink:
    """Talks to one Redis or Valkey server from any number of OS threads.

    Connections are made when needed, kept, and belong to one process: a forked child makes its own.

    Args:
        url: The server, as ``parse_store_url`` reads it.
        client_name: What CLIENT LIST shows; None = nothing.
        connect_timeout_s: Seconds for connecting, greeting included.
        timeout_s: Seconds for each call's reply, and for a free connection.
        retries: As for ``AsyncLink``.
        max_connections: Connections per process; a further caller waits for one to come free.

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
        max_connections: int = 4,
    ) -> None:
        self.dial = Dial.to(
            url, client_name=client_name, connect_timeout_s=connect_timeout_s, timeout_s=timeout_s
        )
        self.timeout_s = timeout_s
        self.retries = retries
        self.max_connections = max_connections
        self._closed = False
        self._pool = _Pool(max_connections)

    def __repr__(self) -> str:
        return f"SyncLink({self.dial.address})"

    def execute(self, *args: Argument) -> Any:
        """As ``AsyncLink.execute``."""
        return self._call(wire.pack(args))

    def evalsha(self, script: Script, keys: Sequence[str] = (), argv: Sequence[Argument] = ()) -> Any:
        """As ``AsyncLink.evalsha``."""
        try:
            return self._call(wire.pack(wire.evalsha(script, keys, argv)))
        except StoreError as error:
            if not wire.is_unknown_script(error):
                raise
        return self._call(wire.pack(wire.eval_body(script, keys, argv)))

    def pipeline(self, commands: Sequence[tuple[Any, ...]], *, limit_s: float | None = None) -> list[Reply]:
        """As ``AsyncLink.pipeline``.

        Args:
            commands: As there.
            limit_s: Longest time for all of it, if it is shorter than the link's own, in seconds.
        """
        if not commands:
            return []
        ends_at = None if limit_s is None else time.monotonic() + limit_s
        replies = self._send_block(wire.pack_block(commands), len(commands), ends_at=ends_at)
        unknown = [at for at, reply in enumerate(replies) if wire.is_unknown_script(reply)]
        if unknown:
            bodies = wire.pack_block([commands[at] for at in unknown], with_body=True)
            late = self._send_block(bodies, len(unknown), sent=True, ends_at=ends_at)
            for at, reply in zip(unknown, late, strict=True):
                replies[at] = reply
        return replies

    def close(self) -> None:
        """Close the idle connections; one in use is closed when its call returns. Final."""
        self._closed = True
        self._pool.close_idle()

    def _call(self, packed: bytes) -> Any:
        left, sent = self.retries, False
        while True:
            try:
                reply = self._exchange(packed, 1)[0]
                if isinstance(reply, StoreError):
                    raise reply
            except ConnectionCut as cut:
                if left <= 0 or isinstance(cut, ReplyTimeout):
                    raise wire.lost_reply(self.dial.address, cut) from None
                left, sent = left - 1, True
            except StoreUnavailableError as error:
                # That the repeat did not run says nothing of the first.
                error.sent = error.sent or sent
                raise
            else:
                return reply

    def _send_block(
        self, packed: bytes, count: int, *, sent: bool = False, ends_at: float | None = None
    ) -> list[Reply]:
        try:
            return self._exchange(packed, count, ends_at)
        except ConnectionCut as cut:
            raise wire.lost_reply(self.dial.address, cut) from None
        except StoreUnavailableError as error:
            error.sent = error.sent or sent
            raise

    def _exchange(self, packed: bytes, count: int, ends_at: float | None = None) -> list[Reply]:
        if self._closed:
            raise StoreUnavailableError(f"{self.dial.address}: the link is closed")
        pool = self._pool
        if pool.pid != os.getpid():
            # No lock: one that another thread of the parent held at the fork would never come free.
            # Two threads here at once make two pools; the one that loses is garbage.
            pool = self._pool = _Pool(self.max_connections)
        limit_s = _left_s(self.timeout_s, ends_at)
        try:
            connection = pool.take(limit_s)
        except queue.Empty:
            raise StoreUnavailableError(
                f"{self.dial.address}: all {self.max_connections} connections of this process were busy "
                f"for {limit_s:.3g} s"
            ) from None
        kept, connection = connection, None
        try:
            connection = self._opened(kept, ends_at)
            return connection.exchange(packed, count, _left_s(self.timeout_s, ends_at))
        except ReplyTimeout:
            if ends_at is None:
                raise
            # Of a limit for all of it, what came before has taken its part.
            raise ReplyTimeout(f"no reply within {limit_s:.3g} s") from None
        finally:
            if connection is not None and self._closed:
                connection.close()
            pool.give_back(connection)

    def _opened(self, kept: SyncConnection | None, ends_at: float | None) -> SyncConnection:
        """The kept connection if it still works, else a new one; both within the time for connecting."""
        limit_s, started = _left_s(self.dial.connect_timeout_s, ends_at), time.monotonic()
        if kept is not None and kept.usable and kept.answers(limit_s / 2):
            return kept
        return reach_sync(self.dial, limit_s - (time.monotonic() - started))


def _left_s(limit_s: float, ends_at: float | None) -> float:
    """The limit, cut at a time of the monotonic clock; never 0, which would mean not to wait at all."""
    return limit_s if ends_at is None else min(limit_s, max(ends_at - time.monotonic(), 0.001))


class _Pool:
    """The connections of one process: so many places, and the idle connections among them."""

    def __init__(self, size: int) -> None:
        self.pid = os.getpid()
        # One token a place: a semaphore that waits without running Python code.
        self._places: queue.SimpleQueue[None] = queue.SimpleQueue()
        for _ in range(size):
            self._places.put(None)
        # Last in, first out: the connections of a past burst stay unused and need no greeting again.
        self._idle: deque[SyncConnection] = deque()

    def take(self, timeout_s: float) -> SyncConnection | None:
        """A place, empty or with an idle connection; the caller gives it back.

        Raises:
            queue.Empty: None came free in time.
        """
        self._places.get(timeout=timeout_s)
        return self._pop()

    def give_back(self, connection: SyncConnection | None) -> None:
        if connection is not None:
            self._idle.append(connection)
        self._places.put(None)

    def close_idle(self) -> None:
        while (connection := self._pop()) is not None:
            connection.close()

    def _pop(self) -> SyncConnection | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None
