"""Who waits for what on which channel: the part of a subscription that does no input or output.

Both subscriptions keep their waiters here; the synchronous one guards it with a lock.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

_log = logging.getLogger(__name__)


Place = tuple[str, str]
"""A channel, and the first space-separated word of the messages wanted there."""


class Flag(Protocol):
    """What is set to wake a waiter: an event, or anything else that is to happen then."""

    def set(self) -> None: ...


class Gate(Flag, Protocol):
    """What ``threading.Event`` and ``asyncio.Event`` have in common."""

    def clear(self) -> None: ...


GateT = TypeVar("GateT", bound=Gate)


class Channel(Generic[GateT]):
    """One channel: its waiters by key, and whether the server has confirmed the subscription.

    Args:
        name: As the server knows it.
        ready: Set once the subscription is confirmed, or cannot be for now.
    """

    __slots__ = ("confirmed", "idle_since", "name", "ready", "seen", "waiters")

    def __init__(self, name: bytes, ready: GateT) -> None:
        self.name = name
        self.ready = ready
        self.waiters: dict[bytes, set[Flag]] = {}
        self.confirmed = False
        self.seen = False
        """Whether it was ever confirmed: from then on a waiter may have missed something."""
        self.idle_since = 0.0


class Interest(Generic[GateT]):
    """One waiter: its flag, and where it is put.

    Args:
        wake: The flag.
        spots: Channels and keys.
    """

    __slots__ = ("spots", "wake")

    def __init__(self, wake: Flag, spots: Sequence[tuple[Channel[GateT], bytes]]) -> None:
        self.wake = wake
        self.spots = spots

    @property
    def confirmed(self) -> bool:
        """Whether the server has confirmed every subscription, so that no message is missed."""
        return all(channel.confirmed for channel, _ in self.spots)


class Interests(Generic[GateT]):
    """Channels, the keys that are waited for on them and whom to wake.

    Args:
        new_gate: Makes what tells of a channel's confirmation.
    """

    def __init__(self, new_gate: Callable[[], GateT]) -> None:
        self._new_gate = new_gate
        self._channels: dict[bytes, Channel[GateT]] = {}
        self.down = False
        """Whether the last attempt to connect failed."""

    def add(self, places: Sequence[Place], wake: Flag) -> tuple[Interest[GateT], list[bytes]]:
        """Register a waiter.

        Args:
            places: Where it waits.
            wake: What to set when a message comes to any of them.

        Returns:
            The waiter, for ``remove``, and the channels that are new and must be subscribed to.
        """
        words = [(name.encode(), key.encode()) for name, key in places]
        new = list(dict.fromkeys(name for name, _ in words if name not in self._channels))
        for name in new:
            channel = self._channels[name] = Channel(name, self._new_gate())
            if self.down:
                channel.seen = True
                channel.ready.set()
        spots = [(self._channels[name], key) for name, key in words]
        for channel, key in spots:
            channel.waiters.setdefault(key, set()).add(wake)
        return Interest(wake, spots), new

    def hears(self, places: Sequence[Place]) -> bool:
        """Whether the server has confirmed every channel of these places.

        Args:
            places: As for ``add``.
        """
        found = [self._channels.get(name.encode()) for name, _ in places]
        return all(channel is not None and channel.confirmed for channel in found)

    def remove(self, interest: Interest[GateT], now: float) -> None:
        """Take a waiter out; a channel stays a while, for the next one.

        Args:
            interest: What ``add`` gave.
            now: Monotonic seconds.
        """
        for channel, key in interest.spots:
            waiters = channel.waiters.get(key)
            if waiters is None:
                continue
            waiters.discard(interest.wake)
            if not waiters:
                del channel.waiters[key]
                if not channel.waiters:
                    channel.idle_since = now

    def idle(self) -> bool:
        """Whether nobody waits for anything."""
        return not any(channel.waiters for channel in self._channels.values())

    def idle_for(self, now: float) -> float:
        """Seconds since the last waiter left; 0 = there is one.

        Args:
            now: Monotonic seconds.
        """
        if not self.idle():
            return 0.0
        return now - max((channel.idle_since for channel in self._channels.values()), default=now)

    def drop_idle(self, idle_before: float) -> list[bytes]:
        """Forget the channels nobody has waited on for some time.

        Args:
            idle_before: Monotonic seconds; younger ones stay.

        Returns:
            What to unsubscribe from. Never a channel whose confirmation is still under way: it would
            be taken for that of the next subscription.
        """
        dropped = [
            name
            for name, channel in self._channels.items()
            if not channel.waiters and channel.confirmed and channel.idle_since <= idle_before
        ]
        for name in dropped:
            del self._channels[name]
        return dropped

    def receive(self, push: Any) -> None:
        """Act on what the server sent on a subscribed connection.

        Args:
            push: A RESP reply: a message, a confirmation or an answer to PING.
        """
        if isinstance(push, Exception):
            # An ACL without the channel, most likely: waiters then only poll.
            _log.warning("subscribe_refused error=%s", push)
        if not isinstance(push, list):
            return
        kind = push[0]
        if kind == b"message":
            channel = self._channels.get(push[1])
            if channel is not None:
                for wake in channel.waiters.get(push[2].partition(b" ")[0], ()):
                    wake.set()
        elif kind == b"subscribe":
            channel = self._channels.get(push[1])
            if channel is not None:
                self._confirm(channel)

    def connected(self) -> list[bytes]:
        """Note that the server can be reached.

        Returns:
            The channels to subscribe to.
        """
        self.down = False
        return list(self._channels)

    def connection_lost(self) -> None:
        """Note that no channel is subscribed to any more; idle ones are forgotten."""
        self._forget_idle()
        for channel in self._channels.values():
            channel.confirmed = False
            channel.ready.clear()

    def connect_failed(self) -> None:
        """Note that the server cannot be reached: from now on nobody waits for a confirmation."""
        self.down = True
        self._forget_idle()
        for channel in self._channels.values():
            # Whoever is let in without a confirmation must be woken by the first one.
            channel.seen = True
            channel.ready.set()

    def wake_all(self) -> None:
        """Wake everybody, also those who still wait for a confirmation."""
        for channel in self._channels.values():
            channel.ready.set()
            self._wake(channel)

    def _confirm(self, channel: Channel[GateT]) -> None:
        missed = channel.seen and not channel.confirmed
        channel.confirmed = channel.seen = True
        channel.ready.set()
        if missed:
            self._wake(channel)

    def _wake(self, channel: Channel[GateT]) -> None:
        for waiters in channel.waiters.values():
            for wake in waiters:
                wake.set()

    def _forget_idle(self) -> None:
        self._channels = {name: channel for name, channel in self._channels.items() if channel.waiters}
