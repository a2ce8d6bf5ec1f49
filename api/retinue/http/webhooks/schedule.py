"""What comes after an attempt at a delivery: nothing, another one later, or giving it up. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final

from retinue.store.operations.deliveries import DeliveryState, Outcome
from retinue.store.operations.webhooks import Disabled

RETRY_AFTER_MAX_S: Final = 24 * 3600.0
"""The longest pause that a receiver may ask for, in seconds."""

_JITTER: Final = 0.2


@dataclass(frozen=True, slots=True)
class Attempt:
    """What an attempt at a delivery came to.

    Args:
        duration_ms: How long it took.
        status: That was answered; None = no answer.
        error: Why there is none, one word.
        retry_after: The answer's header of that name.
    """

    duration_ms: int
    status: int | None = None
    error: str | None = None
    retry_after: str | None = None


def outcome_of(attempt: Attempt, *, made: int, pauses_s: Sequence[float], now: float) -> Outcome:
    """What is written down of an attempt.

    Args:
        made: Attempts before it.
        pauses_s: Between the attempts; there is one more than these.
        now: Epoch seconds.
    """
    status, error = attempt.status, attempt.error
    if status is not None and 200 <= status < 300:
        return Outcome(DeliveryState.DELIVERED, response_status=status, duration_ms=attempt.duration_ms)
    if status == HTTPStatus.GONE:
        return Outcome(
            DeliveryState.FAILED,
            response_status=status,
            duration_ms=attempt.duration_ms,
            error="gone",
            disables=Disabled.GONE,
        )
    is_last = made >= len(pauses_s)
    pause_s = 0.0 if is_last else _pause_s(pauses_s[made], attempt.retry_after, now)
    return Outcome(
        DeliveryState.FAILED if is_last else DeliveryState.PENDING,
        again_ms=round(pause_s * 1000),
        response_status=status,
        duration_ms=attempt.duration_ms,
        error=error or "status",
    )


def _pause_s(planned_s: float, retry_after: str | None, now: float) -> float:
    jittered_s = planned_s * random.uniform(1 - _JITTER, 1 + _JITTER)
    return max(jittered_s, min(_asked_s(retry_after, now), RETRY_AFTER_MAX_S))


def _asked_s(retry_after: str | None, now: float) -> float:
    """The pause that a Retry-After asks for, in seconds; 0 = none, or one that cannot be read."""
    if retry_after is None:
        return 0.0
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after[:12])
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - now)
    except (ValueError, OverflowError):
        return 0.0
