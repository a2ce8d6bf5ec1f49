"""Trying again when the store did not answer, and what to say when it still does not."""

from __future__ import annotations

import time
from collections.abc import Callable

from retinue.contract import (
    ErrorCode,
    StoreError,
    StoreMemoryError,
    StoreUnavailableError,
    SubagentHandle,
    SubagentLifecycleError,
)
from retinue.store.connections.backoff import Backoff

_FIRST_DELAY_S = 0.02
_LONGEST_DELAY_S = 0.25


class Attempts:
    """The attempts at one operation. Repeating is safe: every operation is known by its id.

    A command that never left is not repeated, so that a store that is down is reported at once. One whose
    reply was lost is, under the same id, for that tells what became of it.

    Args:
        limit_s: How long to go on, in seconds.
        unknown: Makes the handle of a launch whose outcome stays unknown; None = no launch.
    """

    def __init__(self, limit_s: float, unknown: Callable[[], SubagentHandle] | None = None) -> None:
        self._until = time.monotonic() + limit_s
        self._unknown = unknown
        self._backoff = Backoff(_FIRST_DELAY_S, _LONGEST_DELAY_S)
        self._was_sent = False
        self._last: StoreError | None = None

    @property
    def left_s(self) -> float | None:
        """Seconds that the next attempt may take; None = the first, which the link's own time-outs end."""
        return None if self._last is None else max(self._until - time.monotonic(), 0.0)

    def next_delay(self, error: StoreError) -> float:
        """Seconds to wait before the next attempt.

        Raises:
            SubagentLifecycleError: STORE_UNAVAILABLE, or LAUNCH_UNKNOWN with the handle: no further one.
        """
        self._last = error
        unavailable = error if isinstance(error, StoreUnavailableError) else None
        self._was_sent = self._was_sent or (unavailable is not None and unavailable.sent)
        delay_s = self._backoff.next_s()
        # A server that let a whole reply's time run out is not asked twice.
        hopeless = unavailable is None or unavailable.timed_out
        if hopeless or not self._was_sent or time.monotonic() + delay_s > self._until:
            raise self._fault(error) from error
        return delay_s

    def cut_short(self) -> SubagentLifecycleError:
        """What to raise when the limit ended a repeat: the error that made it one."""
        assert self._last is not None, "the first attempt is not cut short"
        return self._fault(self._last)

    def _fault(self, error: StoreError) -> SubagentLifecycleError:
        if self._unknown is not None and self._was_sent:
            return SubagentLifecycleError(
                f"the launch was sent, and what became of it is unknown: {error}",
                mend="ask status(error.handle) later, or launch again with the same correlation_id and "
                'on_duplicate="return"',
                code=ErrorCode.LAUNCH_UNKNOWN,
                handle=self._unknown(),
            )
        if isinstance(error, StoreMemoryError):
            message, mend = "the store is at its memory limit", "give the server more memory, or wait"
        elif isinstance(error, StoreUnavailableError):
            message, mend = _unavailable(error)
        else:
            message, mend = f"the store refused: {error}", "see `retinue doctor`"
        return SubagentLifecycleError(message, mend=mend, code=ErrorCode.STORE_UNAVAILABLE)


def _unavailable(error: StoreUnavailableError) -> tuple[str, str]:
    """Message and mend: a server that refuses to let this process in is there, and waiting mends nothing."""
    if error.mend is not None:
        return f"the store cannot be used: {error.message}", error.mend
    return f"the store does not answer: {error.message}", "see that the server runs, then try again"
