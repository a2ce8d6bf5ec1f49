"""The part of an API process that delivers webhooks."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

from retinue.broker.catalogue import advertise_webhooks
from retinue.broker.outbound.guarded_http import system_trust
from retinue.contract import RetinueError
from retinue.http.webhooks.dispatcher import Dispatcher
from retinue.http.webhooks.letters import Letters
from retinue.http.webhooks.sending import Sender
from retinue.http.webhooks.targets import Targets
from retinue.store.operations.webhooks import read_tenants

if TYPE_CHECKING:
    from retinue.client.dispatch.async_connections import AsyncConnections
    from retinue.http.service import Service

LOOK_EVERY_S: Final = 1.0
ADVERTISE_EVERY_S: Final = 60.0
_STOP_S: Final = 5.0

_log = logging.getLogger("retinue.http.webhooks")


@asynccontextmanager
async def webhooks_part(service: Service) -> AsyncGenerator[None]:
    """Delivers for as long as the process lives, and looks at the URLs that callers name."""
    service.webhook_targets = Targets(service.settings.http)
    delivering = asyncio.create_task(_deliver(service))
    try:
        yield
    finally:
        delivering.cancel()
        await asyncio.gather(delivering, return_exceptions=True)
        service.webhook_targets.close()


async def _deliver(service: Service) -> None:
    try:
        await _work(service)
    except Exception as fault:
        # Only at the start can this be: requests meet the same fault, and say so to whoever asks.
        _log.error("webhook.not_delivering error=%s", type(fault).__name__, exc_info=fault)


async def _work(service: Service) -> None:
    await asyncio.to_thread(system_trust)  # reads files for a good while
    connections, settings = service.connections(), service.settings.http
    posted = asyncio.Event()
    sender = Sender(service.webhook_targets.guard, timeout_s=settings.webhook_timeout_seconds)
    dispatcher, letters = Dispatcher(connections, sender, settings), Letters(connections)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_repeat(letters.look, LOOK_EVERY_S, tells=posted))
            group.create_task(_repeat(dispatcher.look, LOOK_EVERY_S, hears=posted))
            group.create_task(_repeat(lambda: _advertise(connections), ADVERTISE_EVERY_S))
    finally:
        await dispatcher.close(_STOP_S)


async def _advertise(connections: AsyncConnections) -> None:
    """Keeps it known which tenants have endpoints: launches mark their runs by that."""
    tenants = await connections.store.run(read_tenants())
    if tenants:
        await connections.store.run(advertise_webhooks(tenants, time.time()))


async def _repeat(
    look: Callable[[], Awaitable[object]],
    every_s: float,
    *,
    tells: asyncio.Event | None = None,
    hears: asyncio.Event | None = None,
) -> None:
    """Looks again and again: at once after a look that found something, which most likely left more.

    Args:
        every_s: After a look that found nothing.
        tells: Set when something was found.
        hears: Set when there is something to find.
    """
    failed = False
    while True:
        if hears is not None:
            hears.clear()
        found: object = None
        try:
            found = await look()
            failed = False
        except RetinueError as fault:
            if not failed:  # once, however long the store is away
                _log.warning("webhook.look_failed error=%s", type(fault).__name__)
            failed = True
        except Exception as fault:
            _log.error("webhook.look_failed error=%s", type(fault).__name__, exc_info=fault)
        if found and tells is not None:
            tells.set()
        await _pause(0 if found else every_s, hears)


async def _pause(time_s: float, hears: asyncio.Event | None) -> None:
    if hears is None:
        await asyncio.sleep(time_s)
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(time_s):
            await hears.wait()
