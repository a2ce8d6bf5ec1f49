"""Tells streams when their callers may read no more: a key was revoked, or it or a token has expired.

All keys of a process's streams are looked up together, however many streams there are.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Final

from retinue.contract import StoreError
from retinue.store.operations.api_keys import find_ended

if TYPE_CHECKING:
    from retinue.http.credentials import Caller
    from retinue.store.store import AsyncStore

LOOK_EVERY_S: Final = 5.0
"""For how long a revoked key still gets what comes over a stream that it has opened, in seconds."""


class AccessWatch:
    """The callers of one process's streams.

    Args:
        store: Where keys stand.
        every_s: How often they are looked up, in seconds.
    """

    def __init__(self, store: Callable[[], AsyncStore], *, every_s: float = LOOK_EVERY_S) -> None:
        self._store = store
        self._every_s = every_s
        self._held: dict[str, set[asyncio.Event]] = {}
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def watching(self, caller: Caller) -> Generator[asyncio.Event]:
        """Gives what is set once the caller may read no more. A handle's holder always may."""
        over = asyncio.Event()
        with ExitStack() as stack:
            if caller.expires_at is not None:
                left_s = max(0.0, caller.expires_at - time.time())
                stack.callback(asyncio.get_running_loop().call_later(left_s, over.set).cancel)
            if caller.api_key_id is not None:
                self._add(caller.api_key_id, over)
                stack.callback(self._remove, caller.api_key_id, over)
            yield over

    async def close(self) -> None:
        """Looks no more."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def _add(self, key_id: str, over: asyncio.Event) -> None:
        self._held.setdefault(key_id, set()).add(over)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="retinue-access")

    def _remove(self, key_id: str, over: asyncio.Event) -> None:
        self._held[key_id].discard(over)
        if not self._held[key_id]:
            del self._held[key_id]

    async def _run(self) -> None:
        while self._held:
            await asyncio.sleep(self._every_s)
            with suppress(StoreError):  # while the store is away nothing comes over the streams either
                for key_id in await self._store().run(find_ended(tuple(self._held))):
                    for over in self._held.get(key_id, ()):
                        over.set()
