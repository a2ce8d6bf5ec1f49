"""When a subscribed connection is looked after: the part of it that both subscriptions share."""

from retinue.store.connections.wire import ConnectionCut

PING_EVERY_S = 4.0
"""Seconds between signs of life: a connection that died silently is found within twice as many."""

LINGER_S = 5.0
_TICK_MIN_S = 0.05


class Pulse:
    """Tells a connection that is merely quiet from one that is dead.

    Args:
        ping_every_s: Seconds between signs of life.
        linger_s: Seconds a channel stays subscribed to after its last watch ended.
        now: Monotonic seconds.
    """

    __slots__ = ("_heard_at", "_ping_every_s", "_pinged_at", "tick_s")

    def __init__(self, ping_every_s: float, linger_s: float, now: float) -> None:
        self.tick_s = min(ping_every_s, max(linger_s, _TICK_MIN_S))
        """Seconds between two looks at idle channels and at this."""
        self._ping_every_s = ping_every_s
        self._heard_at = self._pinged_at = now

    def heard(self, now: float) -> None:
        """Notes that something came from the server."""
        self._heard_at = now

    def ping_is_due(self, now: float) -> bool:
        """Whether to send a PING at this moment; the caller then does.

        Raises:
            ConnectionCut: Nothing has come since the last one.
        """
        if now - self._pinged_at < self._ping_every_s:
            return False
        if self._heard_at < self._pinged_at:
            raise ConnectionCut("the server has gone silent")
        self._pinged_at = now
        return True
