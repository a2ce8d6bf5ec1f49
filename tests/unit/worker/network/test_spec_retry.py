from __future__ import annotations

import pytest

from retinue.agents.agentspec.remote_spec import Jitter, RetrySpec
from retinue.worker.network.spec_retry import recoverable, wait_s


def low(a: float, _b: float) -> float:
    return a


def high(_a: float, b: float) -> float:
    return b


@pytest.mark.parametrize(
    ("jitter", "status", "least", "most"),
    [
        ("none", 503, 4.0, 4.0),
        ("full", 503, 0.0, 4.0),
        ("equal", 503, 2.0, 4.0),
        ("full_and_equal_for_throttle", 503, 0.0, 4.0),
        ("full_and_equal_for_throttle", None, 0.0, 4.0),
        ("full_and_equal_for_throttle", 429, 2.0, 4.0),
        ("decorrelated", 503, 4.0, 5.0),
    ],
)
def test_the_third_wait_grows_by_the_factor_and_is_spread_by_the_jitter(
    jitter: Jitter, status: int | None, least: float, most: float
) -> None:
    spec = RetrySpec(initial_delay_s=1, backoff_factor=2, max_delay_s=100, jitter=jitter)
    assert wait_s(spec, 3, status, low) == least
    assert wait_s(spec, 3, status, high) == most


@pytest.mark.parametrize("jitter", ["none", "full", "equal", "decorrelated"])
def test_no_wait_is_longer_than_the_longest(jitter: Jitter) -> None:
    spec = RetrySpec(initial_delay_s=3, backoff_factor=1e300, max_delay_s=8, jitter=jitter)
    assert wait_s(spec, 500, 503, high) == 8


@pytest.mark.parametrize(
    ("status", "said", "expected"),
    [
        (None, "", True),
        (500, "", True),
        (501, "", False),
        (429, "", True),
        (409, "the row is LOCKED", True),
        (409, "duplicate", False),
        (404, "", False),
        (400, "", False),
        (401, "", False),
        (403, "", False),
        (422, "", False),
    ],
)
def test_what_is_tried_again(status: int | None, said: str, expected: bool) -> None:
    spec = RetrySpec(statuses={"409": ("locked",), "429": (), "400": (), "401": (), "501": ()})
    assert recoverable(spec, status, said) is expected


def test_5xx_can_be_left_to_the_list() -> None:
    spec = RetrySpec(any_5xx=False, statuses={"502": ()})
    assert recoverable(spec, 502, "")
    assert not recoverable(spec, 503, "")
