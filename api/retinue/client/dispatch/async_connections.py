"""The asynchronous twin of connections.py: what all facades of one event loop share.

A loop needs two connections, however many tasks launch and wait on it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from retinue.broker.catalogue import AsyncCatalogue
from retinue.broker.keyring_store import AsyncKeyringStore
from retinue.broker.server.durability import Durability
from retinue.client.dispatch.attempts import Attempts
from retinue.client.dispatch.connections import CLIENT_NAME, WATCHER_NAME, read_replies, sharing_key
from retinue.contract import StoreError, StoreUnavailableError, SubagentHandle
from retinue.store.call import CommandCall, ScriptCall
from retinue.store.connections.async_subscription import AsyncSubscriptions
from retinue.store.connections.link import AsyncLink
from retinue.store.connections.replicated_links import AsyncReplicatedLink
from retinue.store.record import WakeUp
from retinue.store.store import AsyncStore

if TYPE_CHECKING:
    from retinue.broker.settings import Settings
    from retinue.broker.wakeups import Waker

T = TypeVar("T")


class AsyncClientStore(AsyncStore):
    """Mirrors `ClientStore`."""

    def __init__(self, link: AsyncLink, limit_s: float) -> None:
        super().__init__(link)
        self._client_link = link
        self._limit_s = limit_s

    async def run(
        self, call: ScriptCall[T] | CommandCall[T], *, unknown: Callable[[], SubagentHandle] | None = None
    ) -> T:
        """Mirrors `ClientStore.run`."""
        attempts = Attempts(self._limit_s, unknown)
        while True:
            try:
                # A repeat may have to wait for the link's back-off: that, too, ends with the limit.
                async with asyncio.timeout(attempts.left_s):
                    return await super().run(call)
            except StoreError as error:
                delay_s = attempts.next_delay(error)
            except TimeoutError:
                raise attempts.cut_short() from None
            await asyncio.sleep(delay_s)

    async def run_all(self, calls: Sequence[ScriptCall[T]], *, limit_s: float | None = None) -> list[T]:
        """Mirrors `ClientStore.run_all`."""
        attempts = Attempts(self._limit_s if limit_s is None else limit_s)
        commands = [(call.script, call.keys, call.argv) for call in calls]
        while True:
            try:
                return read_replies(calls, await self._pipeline(commands, limit_s))
            except StoreError as error:
                delay_s = attempts.next_delay(error)
            await asyncio.sleep(delay_s)

    async def _pipeline(self, commands: Sequence[tuple[Any, ...]], limit_s: float | None) -> Sequence[object]:
        try:
            async with asyncio.timeout(limit_s):
                return await self._client_link.pipeline(commands)
        except TimeoutError:
            raise StoreUnavailableError(
                f"no reply within {limit_s:.3g} s", sent=True, timed_out=True
            ) from None


class AsyncConnections:
    """What one event loop shares per store and broker; mirrors `Connections`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.loop = asyncio.get_running_loop()
        self.pid = os.getpid()
        self.closed = False
        url, timeout_s = settings.required_store_url, settings.store_timeout_seconds
        link_kind = AsyncReplicatedLink if settings.durability is Durability.STRICT else AsyncLink
        self.link = link_kind(
            url, client_name=CLIENT_NAME, connect_timeout_s=timeout_s, timeout_s=timeout_s, retries=0
        )
        self.subscriptions = AsyncSubscriptions(url, client_name=WATCHER_NAME, connect_timeout_s=timeout_s)
        self.store = AsyncClientStore(self.link, timeout_s)
        self.catalogue = AsyncCatalogue(self.store)
        self.keyring = AsyncKeyringStore(self.store, settings.handle_keys)
        self._waker: Waker | None = None

    async def waker(self) -> Waker:
        """Mirrors `Connections.waker`; made in a thread, since the import takes a good part of a second."""
        if self._waker is None:
            link = self.link if self._settings.same_server else None
            self._waker = await asyncio.to_thread(_make_waker, self._settings, link)
        return self._waker

    async def wake(self, wakeups: Sequence[WakeUp]) -> None:
        """Mirrors `Connections.wake`."""
        if wakeups:
            await (await self.waker()).send(*wakeups)

    async def close(self) -> None:
        """Mirrors `Connections.close`."""
        self.closed = True
        await self.subscriptions.close()
        await self.link.close()


def _make_waker(settings: Settings, link: AsyncLink | None) -> Waker:
    from retinue.broker.app import create_app
    from retinue.broker.wakeups import Waker

    return Waker(create_app(settings), link=link)


_Key = tuple[object, ...]
_shared: dict[_Key, AsyncConnections] = {}
_lock = threading.Lock()


def async_connections_for(settings: Settings) -> AsyncConnections:
    """The shared connections of the running event loop.

    Raises:
        SettingsError: No store is set.
        RuntimeError: No event loop runs on this thread.
    """
    loop = asyncio.get_running_loop()
    key = (*sharing_key(settings), loop)
    with _lock:
        found = _shared.get(key)
        if found is None or found.closed or found.pid != os.getpid():
            for other, kept in list(_shared.items()):
                if kept.loop.is_closed():
                    del _shared[other]
            found = _shared[key] = AsyncConnections(settings)
        return found


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    _shared.clear()


os.register_at_fork(after_in_child=_after_fork)
