"""A store that is waited for: a worker that cannot reach the store, or finds it full, tries again.

Every operation carries an id, so a repeat whose first reply was lost changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from retinue.contract import StoreMemoryError, StoreUnavailableError
from retinue.store.call import CommandCall, ScriptCall
from retinue.store.store import AsyncStore

T = TypeVar("T")
_log = logging.getLogger("retinue.worker")
_FIRST_S = 0.05
_LONGEST_S = 2.0


async def until_answered(
    ask: Callable[[], Awaitable[T]], *, on_wait: Callable[[str], None] | None = None
) -> T:
    """What the store answers, however long it takes to be there again.

    Args:
        ask: Asks the store; may be repeated.
        on_wait: Told the class of the fault before each wait.

    Raises:
        StoreReplyError: The server refused for good.
    """
    delay = _FIRST_S
    while True:
        try:
            return await ask()
        except (StoreUnavailableError, StoreMemoryError) as fault:
            reason = type(fault).__name__
        if on_wait:
            on_wait(reason)
        _log.warning("store.waiting reason=%s delay_s=%.2f", reason, delay)
        await asyncio.sleep(delay * (0.5 + random.random() / 2))
        delay = min(delay * 2, _LONGEST_S)


class PatientStore:
    """Runs calls until they are answered.

    Args:
        store: The store.
        on_wait: Told the class of the fault before each wait.
    """

    def __init__(self, store: AsyncStore, *, on_wait: Callable[[str], None] | None = None) -> None:
        self.store = store
        self._on_wait = on_wait

    async def run(self, call: ScriptCall[T] | CommandCall[T]) -> T:
        """The answer, as `until_answered` gets it."""
        return await until_answered(lambda: self.store.run(call), on_wait=self._on_wait)
