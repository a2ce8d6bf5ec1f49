"""Canaries that this process takes, or answers because it is full: never a run, and never in a slot."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from retinue.broker.canaries import HINT, answer_canary, read_asked
from retinue.contract import StoreError
from retinue.store import keys
from retinue.store.connections.async_subscription import AsyncSubscriptions
from retinue.store.store import AsyncStore

_log = logging.getLogger("retinue.worker")


class Canaries:
    """Writes this process's answers.

    Args:
        store: Where they stand. It need not be patient: a canary that is answered late is as good as none.
        subscriptions: The process's.
        process: Its uuid.
    """

    def __init__(self, store: AsyncStore, subscriptions: AsyncSubscriptions, process: str) -> None:
        self._store = store
        self._subscriptions = subscriptions
        self._process = process
        self._work: set[asyncio.Task[None]] = set()

    def answer(self, nonce: str, *, is_full: bool) -> None:
        """Answers a canary, on the loop's own time."""
        task = asyncio.get_running_loop().create_task(self._answer(nonce, is_full=is_full))
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def answer_when_full(self, if_full: Callable[[Callable[[], None]], None]) -> None:
        """Waits for questions whether the process is full, for as long as it runs.

        Args:
            if_full: Calls back on this loop if all slots are taken, by way of who receives wake-ups.
        """
        hinted = asyncio.Event()
        with self._subscriptions.hook([(keys.process_channel(self._process), HINT)], hinted):
            while True:
                await hinted.wait()
                hinted.clear()
                try:
                    nonces = await self._store.run(read_asked(self._process))
                except StoreError:
                    continue
                if_full(partial(self._answer_full, nonces))

    def _answer_full(self, nonces: Sequence[str]) -> None:
        for nonce in nonces:
            self.answer(nonce, is_full=True)

    async def _answer(self, nonce: str, *, is_full: bool) -> None:
        try:
            await self._store.run(answer_canary(nonce, self._process, is_full=is_full))
        except StoreError as error:
            _log.warning("canary.not_answered error=%s", type(error).__name__)
