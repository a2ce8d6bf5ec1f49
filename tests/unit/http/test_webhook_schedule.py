"""What comes after an attempt at a delivery."""

from __future__ import annotations

from email.utils import formatdate

import pytest

from retinue.http.webhooks.schedule import RETRY_AFTER_MAX_S, Attempt, outcome_of
from retinue.store.operations.deliveries import DeliveryState, Outcome
from retinue.store.operations.webhooks import Disabled

PAUSES_S = (5.0, 30.0, 120.0)
NOW = 1_798_761_600.0


def after(made: int = 0, **attempt: object) -> Outcome:
    """The outcome of an attempt, with so many before it."""
    return outcome_of(Attempt(12, **attempt), made=made, pauses_s=PAUSES_S, now=NOW)  # type: ignore[arg-type]


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_a_status_of_200_to_299_is_success(status: int) -> None:
    assert after(3, status=status) == Outcome(DeliveryState.DELIVERED, response_status=status, duration_ms=12)


@pytest.mark.parametrize("status", [199, 300, 302, 400, 401, 404, 429, 500, 503])
def test_any_other_is_tried_again(status: int) -> None:
    outcome = after(status=status)
    assert (outcome.state, outcome.error) == (DeliveryState.PENDING, "status")
    assert outcome.response_status == status


@pytest.mark.parametrize(("made", "pause_s"), list(enumerate(PAUSES_S)))
def test_pauses_grow_and_are_spread(made: int, pause_s: float) -> None:
    pauses = {after(made, error="timeout").again_ms for _ in range(50)}
    assert len(pauses) > 10
    assert all(0.8 * pause_s <= ms / 1000 <= 1.2 * pause_s for ms in pauses)


def test_after_the_last_pause_it_is_given_up() -> None:
    assert after(3, error="connect") == Outcome(DeliveryState.FAILED, duration_ms=12, error="connect")


def test_who_is_gone_is_not_told_any_more() -> None:
    outcome = after(status=410)
    assert (outcome.state, outcome.disables) == (DeliveryState.FAILED, Disabled.GONE)


@pytest.mark.parametrize(
    ("asked", "least_s", "most_s"),
    [
        ("60", 60, 60),
        ("1", 4, 6),
        ("0", 4, 6),
        (formatdate(NOW + 90, usegmt=True), 90, 90),
        (formatdate(NOW - 90, usegmt=True), 4, 6),
        ("999999999999999999999", RETRY_AFTER_MAX_S, RETRY_AFTER_MAX_S),
        ("-5", 4, 6),
        ("soon", 4, 6),
        ("١٢", 4, 6),
        ("", 4, 6),
        ("nan", 4, 6),
    ],
)
def test_a_receiver_may_ask_for_a_longer_pause_within_a_day(
    asked: str, least_s: float, most_s: float
) -> None:
    pause_s = after(status=503, retry_after=asked).again_ms / 1000
    assert least_s <= pause_s <= most_s
