"""The time of a wait."""

from __future__ import annotations

import pytest

from retinue.client import ErrorCode, SubagentLifecycleError
from retinue.client.clock import SAFETY_READ_S, WaitClock

DOWN = SubagentLifecycleError("down", code=ErrorCode.STORE_UNAVAILABLE)


@pytest.mark.parametrize("forever", [None, float("inf"), 10**400])
def test_a_wait_for_ever_reads_every_ten_seconds(forever: object) -> None:
    clock = WaitClock(forever)
    assert clock.pause() == SAFETY_READ_S
    assert not clock.is_over


def test_a_pause_ends_with_the_wait() -> None:
    assert 0 < WaitClock(2).pause() <= 2
    assert WaitClock(60).pause() == SAFETY_READ_S
    assert WaitClock(0).pause() == 0
    assert WaitClock(0).is_over


@pytest.mark.parametrize("wrong", [float("nan"), -1, float("-inf"), "1", True, [], -(10**400)])
def test_what_is_no_time_is_refused_by_the_callers_name_for_it(wrong: object) -> None:
    with pytest.raises(SubagentLifecycleError) as caught:
        WaitClock(wrong, field="wait_seconds")
    assert caught.value.field == "wait_seconds"
    assert caught.value.limit
    assert caught.value.mend


def test_a_store_that_never_answered_ends_the_wait_at_once() -> None:
    with pytest.raises(SubagentLifecycleError, match="down"):
        WaitClock(60).outage_pause(DOWN)


def test_a_store_that_has_answered_may_be_silent_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000.0]
    monkeypatch.setattr("retinue.client.clock.time.monotonic", lambda: now[0])
    clock = WaitClock(None)
    clock.answered()
    assert 0 < clock.outage_pause(DOWN) <= 0.5
    now[0] += 29
    clock.outage_pause(DOWN)
    clock.answered()
    now[0] += 29
    clock.outage_pause(DOWN)
    now[0] += 31
    with pytest.raises(SubagentLifecycleError, match="down"):
        clock.outage_pause(DOWN)


def test_a_wait_that_is_over_ends_in_an_outage() -> None:
    clock = WaitClock(0)
    clock.answered()
    with pytest.raises(SubagentLifecycleError, match="down"):
        clock.outage_pause(DOWN)


def test_a_look_may_take_the_time_that_is_left_and_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000.0]
    monkeypatch.setattr("retinue.client.clock.time.monotonic", lambda: now[0])
    assert WaitClock().read_limit_s(3) == 3
    assert WaitClock(60).read_limit_s(3) == 3
    # The first look gets what any call gets.
    assert WaitClock(0).read_limit_s(3) == 3
    assert WaitClock(0).read_limit_s(0.5) == 0.5
    clock = WaitClock(10)
    now[0] += 8
    assert clock.read_limit_s(3) == 2
    now[0] += 1.5
    assert clock.read_limit_s(3) == 1


def test_what_is_left_is_never_below_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000.0]
    monkeypatch.setattr("retinue.client.clock.time.monotonic", lambda: now[0])
    assert WaitClock().left_s is None
    assert WaitClock(0).left_s == 0
    clock = WaitClock(5)
    now[0] += 2
    assert clock.left_s == 3
    now[0] += 9
    assert clock.left_s == 0
