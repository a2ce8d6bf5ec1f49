"""Who waits for what on which channel: the part of a subscription that does no input or output.

Both subscriptions keep their waiters here; the synchronous one guards it with a lock.
"""

import logging
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

_log = logging.getLogger(__name__)


class Flag(Protocol):
    """What ``threading.Event`` and ``asyncio.Event`` have in common."""

    def set(self) -> None: ...
    def clear(self) -> None: ...
    def is_set(self) -> bool: ...


FlagT = TypeVar("FlagT", bound=Flag)


class Channel(Generic[FlagT]):
    """One channel: its waiters by key, and whether the server has confirmed the subscription.

    Args:
        name: As the server knows it.
        ready: Set once the subscription is confirmed, or cannot be for now.
    """

    __slots__ = ("confirmed", "idle_since", "name", "ready", "seen", "waiters")

    def __init__(self, name: bytes, ready: FlagT) -> None:
        self.name = name
        self.ready = ready
        self.waiters: dict[bytes, set[FlagT]] = {}
        self.confirmed = False
        self.seen = False
        """Whether it was ever confirmed: from then on a waiter may have missed something."""
        self.idle_since = 0.0


class Interests(Generic[FlagT]):
    """Channels, the keys that are waited for on them and whom to wake.

    Args:
        new_flag: Makes the flags that tell of a channel's confirmation.
    """

    def __init__(self, new_flag: Callable[[], FlagT]) -> None:
        self._new_flag = new_flag
        self._channels: dict[bytes, Channel[FlagT]] = {}
        self.down = False
        """Whether the last attempt to connect failed."""

    def add(self, channel_name: bytes, key: bytes, wake: FlagT) -> tuple[Channel[FlagT], bool]:
        """Register a waiter.

        Returns:
            Its channel, and whether the channel is new and must be subscribed to.
        """
        channel = self._channels.get(channel_name)
        new = channel is None
        if channel is None:
            channel = self._channels[channel_name] = Channel(channel_name, self._new_flag())
            if self.down:
                channel.seen = True
                channel.ready.set()
        channel.waiters.setdefault(key, set()).add(wake)
        return channel, new

    def remove(self, channel: Channel[FlagT], key: bytes, wake: FlagT, now: float) -> None:
        """Take a waiter out; the channel stays a while, for the next one.

        Args:
            channel: Where ``add`` put it.
            key: As given to ``add``.
            wake: As given to ``add``.
            now: Monotonic seconds.
        """
        waiters = channel.waiters.get(key)
        if waiters is None:
            return
        waiters.discard(wake)
        if not waiters:
            del channel.waiters[key]
            if not channel.waiters:
                channel.idle_since = now

    def idle(self) -> bool:
        """Whether nobody waits for anything."""
        return not any(channel.waiters for channel in self._channels.values())

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

    def _confirm(self, channel: Channel[FlagT]) -> None:
        missed = channel.seen and not channel.confirmed
        channel.confirmed = channel.seen = True
        channel.ready.set()
        if missed:
            self._wake(channel)

    def _wake(self, channel: Channel[FlagT]) -> None:
        for waiters in channel.waiters.values():
            for wake in waiters:
                wake.set()

    def _forget_idle(self) -> None:
        self._channels = {name: channel for name, channel in self._channels.items() if channel.waiters}
