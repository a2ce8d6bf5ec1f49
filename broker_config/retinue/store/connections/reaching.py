"""Getting a connection to the store, in two colours: to a server, or to the primary that Sentinel names.

All sentinels are asked at once: the host that is gone is often both the primary's and a sentinel's.
"""

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from retinue.contract.errors import StoreUnavailableError
from retinue.store.connections import primary
from retinue.store.connections.connection import Connection, open_connection
from retinue.store.connections.dial import Dial
from retinue.store.connections.primary import Named, Replies
from retinue.store.connections.sentinel_urls import SentinelAddress
from retinue.store.connections.sync_connection import SyncConnection
from retinue.store.connections.urls import ServerAddress
from retinue.store.connections.wire import ConnectionCut

_ASKING_MAX_S = 1.0
"""Most seconds for the sentinels, so that time is left for the primary."""
_LEFT_MIN_S = 0.05


async def reach(
    dial: Dial,
    *,
    on_write: Callable[[], None] = lambda: None,
    on_push: Callable[[Any], None] | None = None,
) -> Connection:
    """Connect to the store and get in.

    Args:
        dial: Where and how.
        on_write: Called for each write.
        on_push: Called with each reply that nobody asked for, after the greeting.

    Raises:
        StoreUnavailableError: As `open_connection`, or no sentinel names a primary that is up.
    """
    if isinstance(dial.address, ServerAddress):
        return await open_connection(dial, dial.address, on_write=on_write, on_push=on_push)
    ends_at = time.monotonic() + dial.connect_timeout_s
    address = await _find(dial.address, dial)
    left_s = max(ends_at - time.monotonic(), _LEFT_MIN_S)
    rest = replace(dial, connect_timeout_s=left_s)
    return await open_connection(rest, address, on_write=on_write, on_push=on_push)


def reach_sync(dial: Dial, connect_timeout_s: float | None = None) -> SyncConnection:
    """The synchronous twin of `reach`.

    Args:
        dial: Where and how.
        connect_timeout_s: Seconds for all of it; None = the dial's.
    """
    limit_s = dial.connect_timeout_s if connect_timeout_s is None else connect_timeout_s
    if isinstance(dial.address, ServerAddress):
        return SyncConnection(dial, dial.address, limit_s)
    ends_at = time.monotonic() + limit_s
    address = find_primary(dial.address, limit_s)
    return SyncConnection(dial, address, max(ends_at - time.monotonic(), _LEFT_MIN_S))


def find_primary(service: SentinelAddress, limit_s: float) -> ServerAddress:
    """Ask the sentinels where the primary is.

    Args:
        service: Whose.
        limit_s: Seconds, of which the sentinels get one at the most.

    Raises:
        StoreUnavailableError: Nobody knows it, or it is down.
    """
    return ask_sentinels(service, limit_s).primary()


def ask_sentinels(service: SentinelAddress, limit_s: float, *, everybody: bool = False) -> Replies:
    """What the sentinels say, as far as they have answered.

    Args:
        service: Whose.
        limit_s: As above.
        everybody: Whether to wait for all of them; False = until the missing ones could not matter.
    """
    limit_s = min(_ASKING_MAX_S, limit_s)
    dial = Dial(service, None, limit_s, limit_s)
    answers: queue.SimpleQueue[Named | StoreUnavailableError] = queue.SimpleQueue()
    for server in service.sentinel_servers:
        # Daemons, and not waited for: one that hangs ends by its own time-out.
        threading.Thread(
            target=_answer_into,
            args=(answers, dial, server, service.service),
            name="retinue-sentinel",
            daemon=True,
        ).start()
    replies, ends_at = Replies(service), time.monotonic() + limit_s
    while not (replies.complete if everybody else replies.enough):
        left_s = max(ends_at - time.monotonic(), 0)
        try:
            answer = answers.get(timeout=left_s if everybody else replies.wait_s(left_s))
        except queue.Empty:
            break
        replies.add(answer)
    return replies


def _answer_into(
    answers: "queue.SimpleQueue[Named | StoreUnavailableError]",
    dial: Dial,
    server: ServerAddress,
    service: str,
) -> None:
    answers.put(_ask_sync(dial, server, service))


def _ask_sync(dial: Dial, server: ServerAddress, service: str) -> Named | StoreUnavailableError:
    plain = replace(dial, address=server)
    try:
        connection = SyncConnection(plain, server)
        try:
            return primary.read_answer(connection.exchange(primary.question(service), 1)[0], service)
        finally:
            connection.close()
    except ConnectionCut as cut:
        return StoreUnavailableError(f"{server}: {cut}")
    except StoreUnavailableError as error:
        return error


async def _find(service: SentinelAddress, dial: Dial) -> ServerAddress:
    limit_s = min(_ASKING_MAX_S, dial.connect_timeout_s)
    asking = Dial(service, dial.client_name, limit_s, limit_s)
    pending = {
        asyncio.ensure_future(_ask(asking, server, service.service)) for server in service.sentinel_servers
    }
    replies, ends_at = Replies(service), time.monotonic() + limit_s
    try:
        while not replies.enough:
            wait_s = max(replies.wait_s(ends_at - time.monotonic()), 0)
            done, pending = await asyncio.wait(pending, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                break
            for task in done:
                replies.add(task.result())
    finally:
        for task in pending:
            task.cancel()
    return replies.primary()


async def _ask(dial: Dial, server: ServerAddress, service: str) -> Named | StoreUnavailableError:
    try:
        connection = await open_connection(replace(dial, address=server), server)
        try:
            return primary.read_answer(await connection.request(primary.question(service)), service)
        finally:
            connection.abort(ConnectionCut("answered"))
    except ConnectionCut as cut:
        return StoreUnavailableError(f"{server}: {cut}")
    except StoreUnavailableError as error:
        return error
