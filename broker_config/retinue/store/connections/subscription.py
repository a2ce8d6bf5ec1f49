"""Waiting for messages from plain code: one OS thread and one connection for a whole process.

A subscription is a hint, never the truth: whoever is woken reads the state again, and reads it every
few seconds in any case.
"""

import os
import selectors
import socket
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from weakref import WeakSet

from retinue.contract.errors import StoreUnavailableError
from retinue.store.connections import wire
from retinue.store.connections.backoff import Backoff
from retinue.store.connections.dial import Dial
from retinue.store.connections.interest import Flag, Interest, Interests, Place
from retinue.store.connections.pulse import LINGER_S, PING_EVERY_S, Pulse
from retinue.store.connections.reaching import reach_sync
from retinue.store.connections.sync_connection import SyncConnection

BACKOFF_FIRST_S = 0.05
BACKOFF_MAX_S = 2.0
DEAF_AFTER_S = 0.05
"""Seconds without a waiter after which the thread is not woken by each message any more."""


class Wake:
    """What a waiter waits on; re-armed each time ``wait`` returns True."""

    __slots__ = ("_shut",)

    def __init__(self) -> None:
        # A bare lock, held while there is no news: an Event runs many times as much code, and whoever
        # waits for a run pays for it at the moment of the run's end.
        self._shut = threading.Lock()
        self._shut.acquire()

    def set(self) -> None:
        """Wake the waiter, now or when it comes to wait."""
        with suppress(RuntimeError):  # it has been woken already
            self._shut.release()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until there may be news.

        Args:
            timeout_s: Seconds; None = for ever.

        Returns:
            Whether there may be news. In both cases the caller reads the state.
        """
        # To take the lock is to re-arm it: a message that comes after is not lost.
        return self._shut.acquire(timeout=-1 if timeout_s is None else timeout_s)


class Subscriptions:
    """Wakes any number of OS threads by messages on channels.

    The thread and the connection start with the first watch. A forked child starts its own.

    Args:
        url: The server, as ``parse_store_url`` reads it.
        client_name: What CLIENT LIST shows; None = nothing.
        connect_timeout_s: Seconds for connecting, and for the server's confirmation.
        linger_s: Seconds a channel stays subscribed to after its last watch ended.
        ping_every_s: Seconds between signs of life; a connection without an answer is replaced.

    Raises:
        SettingsError: The URL cannot be read.
    """

    def __init__(
        self,
        url: str,
        *,
        client_name: str | None = None,
        connect_timeout_s: float = 3.0,
        linger_s: float = LINGER_S,
        ping_every_s: float = PING_EVERY_S,
    ) -> None:
        self.dial = Dial.to(url, client_name=client_name, connect_timeout_s=connect_timeout_s)
        self.linger_s = linger_s
        self.ping_every_s = ping_every_s
        self._closed = False
        self._forget()
        _all.add(self)

    def __repr__(self) -> str:
        return f"Subscriptions({self.dial.address})"

    def watch(self, channel: str, key: str) -> AbstractContextManager[Wake]:
        """As ``watch_any`` with one place."""
        return self.watch_any([(channel, key)])

    @contextmanager
    def watch_any(self, places: Sequence[Place], *, confirm_s: float | None = None) -> Generator[Wake]:
        """Be woken by messages to any of several places.

        It is entered once the server has confirmed the subscriptions, so that a state read inside
        misses nothing. Without a connection it is entered with the wake set: the waiter then polls.

        Args:
            places: Channels, and the first space-separated word of the messages wanted there.
            confirm_s: Longest wait for the confirmation, in seconds; None = as long as connecting.

        Returns:
            A context manager that gives the ``Wake``. It is also set after every reconnect.

        Raises:
            StoreUnavailableError: The subscriptions were closed.
        """
        wake = Wake()
        listener = self._running()
        interest = listener.add(places, wake)
        try:
            limit_s = self.dial.connect_timeout_s if confirm_s is None else confirm_s
            deadline = time.monotonic() + limit_s
            for channel, _ in interest.spots:
                if not channel.ready.is_set():
                    channel.ready.wait(max(deadline - time.monotonic(), 0))
            if not interest.confirmed:
                wake.set()
            yield wake
        finally:
            listener.remove(interest)

    def hears(self, places: Sequence[Place]) -> bool:
        """Whether a watch of these places would cost next to nothing: no question to the server, no ring.

        Args:
            places: As for ``watch_any``.
        """
        listener = self._listener
        return listener is not None and listener.hears(places)

    def close(self) -> None:
        """Stop the thread and close the connection; waiters are woken once. Final."""
        with self._lock:
            self._closed = True
            listener, self._listener = self._listener, None
        if listener is not None:
            listener.stop()

    def _running(self) -> "_Listener":
        with self._lock:
            if self._closed:
                raise StoreUnavailableError(f"{self.dial.address}: the subscriptions are closed")
            if self._listener is None:
                self._listener = _Listener(self)
            return self._listener

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._listener: _Listener | None = None


_all: WeakSet[Subscriptions] = WeakSet()


def _after_fork() -> None:
    # Neither the thread nor a lock held by one exists in the child.
    for subscriptions in list(_all):
        subscriptions._forget()  # pyright: ignore[reportPrivateUsage]


os.register_at_fork(after_in_child=_after_fork)


class _Listener:
    """The thread of one process: connects, subscribes, dispatches; alone in touching the socket."""

    def __init__(self, owner: Subscriptions) -> None:
        self._dial = owner.dial
        self._linger_s = owner.linger_s
        self._ping_every_s = owner.ping_every_s
        self._lock = threading.Lock()
        self._interests: Interests[threading.Event] = Interests(threading.Event)
        self._wanted: list[bytes] = []
        self._stopping = False
        self._deaf = False
        self._bell, self._ear = socket.socketpair()
        self._bell.setblocking(False)
        self._ear.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="retinue-subscriptions", daemon=True)
        self._thread.start()

    def add(self, places: Sequence[Place], flag: Flag) -> Interest[threading.Event]:
        with self._lock:
            interest, new = self._interests.add(places, flag)
            self._wanted += new
            is_heard = not (new or self._deaf)
        if not is_heard:
            self._ring()
        return interest

    def hears(self, places: Sequence[Place]) -> bool:
        with self._lock:
            return not self._deaf and self._interests.hears(places)

    def remove(self, interest: Interest[threading.Event]) -> None:
        with self._lock:
            self._interests.remove(interest, time.monotonic())

    def stop(self) -> None:
        self._stopping = True
        self._ring()
        if self._thread is not threading.current_thread():
            self._thread.join(self._dial.connect_timeout_s + 1)

    def _ring(self) -> None:
        # A full buffer means that the thread has not looked yet: it will.
        with suppress(OSError):
            self._bell.send(b"!")

    def _run(self) -> None:
        backoff = Backoff(BACKOFF_FIRST_S, BACKOFF_MAX_S)
        while not self._stopping:
            if self._nobody_waits():
                self._sleep(None)
                continue
            try:
                connection = reach_sync(self._dial)
            except StoreUnavailableError:
                with self._lock:
                    self._interests.connect_failed()
                self._sleep(backoff.next_s())
                continue
            backoff.reset()
            try:
                self._listen(connection)
            except (OSError, wire.ProtocolError, wire.ConnectionCut):
                pass
            finally:
                connection.close()
                with self._lock:
                    self._interests.connection_lost()
        self._end()

    def _listen(self, connection: SyncConnection) -> None:
        with self._lock:
            names = self._interests.connected()
            self._wanted.clear()
            self._deaf = False
        self._send(connection, "SUBSCRIBE", names)
        now = time.monotonic()
        pulse = Pulse(self._ping_every_s, self._linger_s, now)
        tick_at = now + pulse.tick_s
        with selectors.DefaultSelector() as both, selectors.DefaultSelector() as ear_only:
            both.register(connection.socket, selectors.EVENT_READ)
            both.register(self._ear, selectors.EVENT_READ)
            ear_only.register(self._ear, selectors.EVENT_READ)
            while not self._stopping:
                ready = (ear_only if self._deaf else both).select(max(tick_at - now, 0))
                if any(key.fileobj is self._ear for key, _ in ready):
                    self._drain_ear()
                now = time.monotonic()
                with self._lock:
                    names, self._wanted = self._wanted, []
                    # Ends that nobody waits for are left to the next tick, or the next waiter.
                    self._deaf = self._interests.idle_for(now) > DEAF_AFTER_S
                self._send(connection, "SUBSCRIBE", names)
                if self._receive(connection):
                    pulse.heard(now)
                if now < tick_at:
                    continue
                tick_at = now + pulse.tick_s
                with self._lock:
                    names = self._interests.drop_idle(now - self._linger_s)
                self._send(connection, "UNSUBSCRIBE", names)
                if pulse.ping_is_due(now):
                    connection.send(wire.pack(("PING",)))

    def _send(self, connection: SyncConnection, command: str, names: Sequence[bytes]) -> None:
        if names:
            connection.send(wire.pack((command, *names)))

    def _receive(self, connection: SyncConnection) -> bool:
        heard = False
        for push in connection.receive():
            heard = True
            with self._lock:
                self._interests.receive(push)
        return heard

    def _nobody_waits(self) -> bool:
        with self._lock:
            return self._interests.idle()

    def _sleep(self, seconds: float | None) -> None:
        """Sleep so long, whoever rings; without a time, until the next ring."""
        deadline = None if seconds is None else time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._ear, selectors.EVENT_READ)
            while not self._stopping:
                left_s = None if deadline is None else deadline - time.monotonic()
                if left_s is not None and left_s <= 0:
                    return
                selector.select(left_s)
                self._drain_ear()
                if deadline is None:
                    return

    def _drain_ear(self) -> None:
        with suppress(BlockingIOError):
            while self._ear.recv(4096):
                pass

    def _end(self) -> None:
        with self._lock:
            self._interests.wake_all()
        self._bell.close()
        self._ear.close()
