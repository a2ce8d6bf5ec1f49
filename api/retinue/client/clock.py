"""How long a wait may still take."""

from __future__ import annotations

import time

from retinue.contract import TIMEOUT_MAX_SECONDS, SubagentLifecycleError

SAFETY_READ_S = 10.0
"""A waiter reads the state this often, whether or not it was woken: a message is only a hint."""

OUTAGE_S = 30.0
"""How long a wait outlasts a store that does not answer."""

_OUTAGE_PAUSE_S = 0.5
_LATE_S = 1.0


class WaitClock:
    """The time of one wait.

    Args:
        timeout_seconds: From now; 0 = look once. None = for ever.
        field: What the caller calls it.

    Raises:
        SubagentLifecycleError: It is no number of seconds, negative, or NaN.
    """

    def __init__(self, timeout_seconds: object = None, *, field: str = "timeout_seconds") -> None:
        seconds = _checked(field, timeout_seconds)
        self._began_at = time.monotonic()
        self._ends_at = None if seconds is None else self._began_at + seconds
        self._silent_since: float | None = None
        self._was_answered = False

    @property
    def left_s(self) -> float | None:
        """Seconds that are left; None = for ever."""
        return None if self._ends_at is None else max(0.0, self._ends_at - time.monotonic())

    @property
    def is_over(self) -> bool:
        """Whether the time has run out."""
        return self._ends_at is not None and time.monotonic() >= self._ends_at

    def pause(self, longest_s: float | None = None) -> float:
        """Seconds until the state is to be read again, if no message comes before.

        Args:
            longest_s: None = SAFETY_READ_S.
        """
        longest_s = SAFETY_READ_S if longest_s is None else longest_s
        if self._ends_at is None:
            return longest_s
        return max(0.0, min(self._ends_at - time.monotonic(), longest_s))

    def read_limit_s(self, usual_s: float) -> float:
        """Seconds that one look at the state may take.

        A store that is silent so makes a wait at most a second late, or as late as any other call.

        Args:
            usual_s: What any other call grants the store.
        """
        if self._ends_at is None:
            return usual_s
        now = time.monotonic()
        return min(usual_s, max(self._ends_at - now, _LATE_S, self._began_at + usual_s - now))

    def answered(self) -> None:
        """Notes that the store could be read."""
        self._was_answered = True
        self._silent_since = None

    def outage_pause(self, error: SubagentLifecycleError) -> float:
        """Seconds to wait before the state is read again that could not be read now.

        Raises:
            SubagentLifecycleError: The error: the store has not answered this wait at all or has been silent
                for too long, or the time is over.
        """
        now = time.monotonic()
        self._silent_since = self._silent_since or now
        if not self._was_answered or self.is_over or now - self._silent_since > OUTAGE_S:
            raise error
        return self.pause(_OUTAGE_PAUSE_S)


def _checked(field: str, value: object) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _fault(field, f"is of type {type(value).__name__}")
    # NaN fails every comparison; an int of a thousand digits compares, but has no float.
    if not value >= 0:
        raise _fault(field, "is negative or NaN")
    return None if value > TIMEOUT_MAX_SECONDS else float(value)


def _fault(field: str, wrong: str) -> SubagentLifecycleError:
    return SubagentLifecycleError(
        wrong,
        field=field,
        limit="a number of seconds, 0 or more, or None",
        mend="give the longest time to wait, or None to wait for ever",
    )
