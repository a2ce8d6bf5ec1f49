"""The connections that all facades of a process share, made when first needed and per process.

A web server forks after import: so nothing is connected before the first call, and a forked child makes
its own. Any number of facades and waiters thus needs five connections.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from retinue.broker.catalogue import Catalogue
from retinue.broker.keyring_store import KeyringStore
from retinue.broker.server.durability import Durability
from retinue.client.dispatch.attempts import Attempts
from retinue.contract import StoreError, SubagentHandle
from retinue.store.call import CommandCall, ScriptCall
from retinue.store.connections.replicated_links import ReplicatedLink
from retinue.store.connections.subscription import Subscriptions
from retinue.store.connections.sync_link import SyncLink
from retinue.store.record import WakeUp
from retinue.store.store import Store

if TYPE_CHECKING:
    from retinue.broker.settings import Settings
    from retinue.broker.wakeups import Waker

T = TypeVar("T")
CLIENT_NAME = "retinue-client"
WATCHER_NAME = "retinue-client-watch"
_LINK_CONNECTIONS = 4


class ClientStore(Store):
    """The store as a client calls it: lost replies are asked for again, failures are the facade's errors.

    Args:
        link: It must not repeat by itself, so that an error tells whether anything was sent.
        limit_s: How long one call goes on trying, in seconds.
    """

    def __init__(self, link: SyncLink, limit_s: float) -> None:
        super().__init__(link)
        self._client_link = link
        self._limit_s = limit_s

    def run(
        self, call: ScriptCall[T] | CommandCall[T], *, unknown: Callable[[], SubagentHandle] | None = None
    ) -> T:
        """Mirrors `Store.run`.

        Args:
            unknown: Makes the handle of a launch whose outcome stays unknown.

        Raises:
            SubagentLifecycleError: STORE_UNAVAILABLE, or LAUNCH_UNKNOWN with the handle.
        """
        attempts = Attempts(self._limit_s, unknown)
        while True:
            try:
                return super().run(call)
            except StoreError as error:
                delay_s = attempts.next_delay(error)
            time.sleep(delay_s)

    def run_all(self, calls: Sequence[ScriptCall[T]], *, limit_s: float | None = None) -> list[T]:
        """Several reads in one round trip.

        Args:
            limit_s: How long to go on trying, if that is shorter than for any call, in seconds.

        Raises:
            SubagentLifecycleError: STORE_UNAVAILABLE: one of them failed.
        """
        attempts = Attempts(self._limit_s if limit_s is None else limit_s)
        commands = [(call.script, call.keys, call.argv) for call in calls]
        while True:
            try:
                return read_replies(calls, self._client_link.pipeline(commands, limit_s=limit_s))
            except StoreError as error:
                delay_s = attempts.next_delay(error)
            time.sleep(delay_s)


def read_replies(calls: Sequence[ScriptCall[T]], replies: Sequence[object]) -> list[T]:
    """What a pipeline of calls answered.

    Raises:
        StoreError: The first error among the replies.
    """
    for reply in replies:
        if isinstance(reply, StoreError):
            raise reply
    return [call.parse(reply) for call, reply in zip(calls, replies, strict=True)]


class Connections:
    """What one process shares per store and broker.

    Args:
        settings: Where they are, how long to wait for them, and the handle keys.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.pid = os.getpid()
        self.closed = False
        url, timeout_s = settings.required_store_url, settings.store_timeout_seconds
        link_kind = ReplicatedLink if settings.durability is Durability.STRICT else SyncLink
        self.link = link_kind(
            url,
            client_name=CLIENT_NAME,
            connect_timeout_s=timeout_s,
            timeout_s=timeout_s,
            retries=0,
            max_connections=_LINK_CONNECTIONS,
        )
        self.subscriptions = Subscriptions(url, client_name=WATCHER_NAME, connect_timeout_s=timeout_s)
        self.store = ClientStore(self.link, timeout_s)
        self.catalogue = Catalogue(self.store)
        self.keyring = KeyringStore(self.store, settings.handle_keys)
        self._waker: Waker | None = None

    @property
    def waker(self) -> Waker:
        """Sends wake-ups; made at its first use, since it imports the whole of Celery and kombu."""
        if self._waker is None:
            from retinue.broker.app import create_app
            from retinue.broker.wakeups import Waker

            # Two threads at once make two; the one that loses is garbage.
            link = self.link if self._settings.same_server else None
            self._waker = Waker(create_app(self._settings), sync_link=link)
        return self._waker

    def wake(self, wakeups: Sequence[WakeUp]) -> None:
        """Sends wake-ups; what cannot be sent is left to the reaper."""
        if wakeups:
            self.waker.send_sync(*wakeups)

    def close(self) -> None:
        """Ends them all. Whoever waits is told that the store is unavailable."""
        self.closed = True
        self.subscriptions.close()
        self.link.close()


_Key = tuple[object, ...]
_shared: dict[_Key, Connections] = {}
_lock = threading.Lock()


def sharing_key(settings: Settings) -> _Key:
    """What two settings must agree in to share connections."""
    return (
        settings.required_store_url,
        settings.required_broker_url,
        settings.store_timeout_seconds,
        settings.durability,
        settings.handle_keys,
    )


def connections_for(settings: Settings) -> Connections:
    """The shared connections of this process.

    Raises:
        SettingsError: No store is set.
    """
    key = sharing_key(settings)
    with _lock:
        found = _shared.get(key)
        if found is None or found.closed or found.pid != os.getpid():
            found = _shared[key] = Connections(settings)
        return found


def _after_fork() -> None:
    # The parent's threads are not here, and a lock that one of them held would never come free.
    global _lock
    _lock = threading.Lock()
    _shared.clear()


os.register_at_fork(after_in_child=_after_fork)
