"""When a quiet connection is pinged, and when it counts as dead."""

from __future__ import annotations

import pytest

from retinue.store.connections.pulse import Pulse
from retinue.store.connections.wire import ConnectionCut


def test_a_ping_is_due_once_in_each_interval() -> None:
    pulse = Pulse(ping_every_s=10, linger_s=5, now=0)
    assert [pulse.ping_is_due(now) for now in (9, 10, 11, 19)] == [False, True, False, False]


def test_a_connection_that_answers_goes_on() -> None:
    pulse = Pulse(ping_every_s=10, linger_s=5, now=0)
    assert pulse.ping_is_due(10)
    pulse.heard(10.001)
    assert pulse.ping_is_due(20)


def test_a_connection_without_an_answer_is_dead_at_the_next_ping() -> None:
    pulse = Pulse(ping_every_s=10, linger_s=5, now=0)
    assert pulse.ping_is_due(10)
    assert not pulse.ping_is_due(19)
    with pytest.raises(ConnectionCut, match="silent"):
        pulse.ping_is_due(20)


@pytest.mark.parametrize(("linger_s", "tick_s"), [(5, 5), (0, 0.05), (60, 10)])
def test_it_is_looked_at_as_often_as_lingering_and_pinging_need(linger_s: float, tick_s: float) -> None:
    assert Pulse(ping_every_s=10, linger_s=linger_s, now=0).tick_s == tick_s
