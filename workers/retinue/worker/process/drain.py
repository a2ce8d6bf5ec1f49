"""A request that this process drain, as `retinue workers drain` writes it, and its end in good order."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from retinue.broker.draining import HINT, read_asked
from retinue.store import keys
from retinue.store.connections.async_subscription import AsyncSubscriptions
from retinue.worker.process.patience import PatientStore

_log = logging.getLogger("retinue.worker")
_LOOK_EVERY_S: Final = 10.0
"""Seconds between looks: a hint may be lost."""


async def drain_when_asked(
    subscriptions: AsyncSubscriptions, store: PatientStore, process: str, drain: Callable[[], None]
) -> None:
    """Waits for a request.

    Args:
        subscriptions: The process's.
        store: Where the request stands.
        process: Its uuid.
        drain: Called once.
    """
    hinted = asyncio.Event()
    with subscriptions.hook([(keys.process_channel(process), HINT)], hinted):
        while not await store.run(read_asked([process])):
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_EVERY_S):
                    await hinted.wait()
            hinted.clear()
    _log.info("drain.asked process=%s", process)
    drain()


def terminate_this_process() -> None:
    """Does what `kill` would: everything that ends a worker goes by this one way. From any OS thread."""
    main = threading.main_thread().ident
    assert main is not None
    # To the main OS thread, which handles signals: another would not be woken from what it waits for.
    signal.pthread_kill(main, signal.SIGTERM)
