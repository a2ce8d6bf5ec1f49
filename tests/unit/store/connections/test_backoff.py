"""How long a server that cannot be reached is left alone."""

from __future__ import annotations

from retinue.store.connections.backoff import Backoff


def test_pauses_double_up_to_the_longest() -> None:
    backoff = Backoff(0.5, 3)
    assert [backoff.next_s() for _ in range(5)] == [0.5, 1, 2, 3, 3]


def test_after_a_success_it_begins_again() -> None:
    backoff = Backoff(0.5, 3)
    assert (backoff.next_s(), backoff.next_s()) == (0.5, 1)
    backoff.reset()
    assert backoff.next_s() == 0.5


def test_the_first_pause_is_no_longer_than_the_longest() -> None:
    assert Backoff(0.5, 0.25).next_s() == 0.25
