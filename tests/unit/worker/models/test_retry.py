"""One policy of retries, on a clock of the test's own."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from retinue.agents.agentspec.remote_spec import RetrySpec
from retinue.contract import ErrorClassification
from retinue.worker.models import ModelError, RetryAbandonedError, RetryPolicy

LIMITED = ErrorClassification.MODEL_RATE_LIMITED
UNAVAILABLE = ErrorClassification.MODEL_UNAVAILABLE
REJECTED = ErrorClassification.MODEL_REJECTED


def failure(classification: ErrorClassification, *, retryable: bool = True, **fields: Any) -> ModelError:
    return ModelError("failed", classification=classification, retryable=retryable, **fields)


class Desk:
    """A model call with scripted outcomes, and a clock that only waiting and calling move."""

    def __init__(self, outcomes: Sequence[ModelError | str], *, call_s: float = 0.0) -> None:
        self.outcomes = list(outcomes)
        self.call_s = call_s
        self.now = 0.0
        self.waits: list[float] = []
        self.log: list[object] = []

    async def call(self) -> str:
        self.log.append("call")
        self.now += self.call_s
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, ModelError):
            raise outcome
        return outcome

    async def sleep(self, seconds: float) -> None:
        self.log.append("sleep")
        self.waits.append(seconds)
        self.now += seconds

    def policy(self, **fields: Any) -> RetryPolicy:
        # The longest wait that jitter allows.
        return RetryPolicy(
            **{"clock": lambda: self.now, "sleep": self.sleep, "uniform": lambda _low, high: high, **fields}
        )


async def test_an_answer_after_failures_is_returned_with_growing_waits():
    desk = Desk([failure(UNAVAILABLE)] * 3 + ["answer"])
    assert await desk.policy().run(desk.call) == "answer"
    assert desk.waits == [0.5, 1.0, 2.0]


async def test_waits_are_capped():
    desk = Desk([failure(UNAVAILABLE)] * 10)
    with pytest.raises(ModelError):
        await desk.policy(max_attempts=10).run(desk.call)
    assert max(desk.waits) == 30.0


async def test_jitter_is_full():
    bounds: list[tuple[float, float]] = []
    desk = Desk([failure(UNAVAILABLE)] * 2 + ["answer"])

    def least(low: float, high: float) -> float:
        bounds.append((low, high))
        return low

    await desk.policy(uniform=least).run(desk.call)
    assert bounds == [(0.0, 0.5), (0.0, 1.0)]
    assert desk.waits == [0.0, 0.0]


async def test_the_servers_wish_is_the_least_wait():
    desk = Desk([failure(LIMITED, retry_after_s=7.0), "answer"])
    await desk.policy(uniform=lambda low, _high: low).run(desk.call)
    assert desk.waits == [7.0]


@pytest.mark.parametrize(
    "error",
    [
        failure(ErrorClassification.MODEL_REJECTED),
        failure(ErrorClassification.CONTEXT_TOO_LONG),
        failure(ErrorClassification.INTERNAL_ERROR),
        failure(UNAVAILABLE, retryable=False),
    ],
)
async def test_what_no_retry_mends_is_not_retried(error: ModelError):
    desk = Desk([error, "answer"])
    with pytest.raises(ModelError) as caught:
        await desk.policy().run(desk.call)
    assert caught.value is error
    assert desk.log == ["call"]


async def test_the_last_failure_comes_out_when_the_attempts_are_spent():
    last = failure(LIMITED)
    desk = Desk([failure(UNAVAILABLE), last, "answer"])
    with pytest.raises(ModelError) as caught:
        await desk.policy(max_attempts=2).run(desk.call)
    assert caught.value is last


async def test_no_retry_starts_after_the_elapsed_limit():
    desk = Desk([failure(UNAVAILABLE), "answer"], call_s=99.6)
    with pytest.raises(ModelError):
        await desk.policy(max_elapsed_s=100.0).run(desk.call)
    assert desk.log == ["call"]


async def test_a_wish_beyond_the_elapsed_limit_is_not_waited_for():
    desk = Desk([failure(LIMITED, retry_after_s=3600.0), "answer"])
    with pytest.raises(ModelError) as caught:
        await desk.policy().run(desk.call)
    assert caught.value.retry_after_s == 3600.0
    assert desk.waits == []


async def test_each_retry_is_told_before_its_wait_and_asks_after_it():
    desk = Desk([failure(LIMITED), failure(UNAVAILABLE), "answer"])

    async def on_retry(reason: ErrorClassification, delay_ms: int, attempt: int) -> None:
        desk.log.append((reason, delay_ms, attempt))

    async def should_continue() -> bool:
        desk.log.append("asked")
        return True

    await desk.policy().run(desk.call, should_continue=should_continue, on_retry=on_retry)
    assert desk.log == [
        *("call", (LIMITED, 2000, 1), "sleep", "asked"),
        *("call", (UNAVAILABLE, 1000, 2), "sleep", "asked"),
        "call",
    ]


async def test_a_cancel_mark_during_the_wait_stops_the_retry():
    desk = Desk([failure(LIMITED, status=429), "answer"])

    async def marked() -> bool:
        return False

    with pytest.raises(RetryAbandonedError) as caught:
        await desk.policy().run(desk.call, should_continue=marked)
    assert desk.log == ["call", "sleep"]
    assert (caught.value.classification, caught.value.status) == (LIMITED, 429)


async def test_cancelling_the_task_ends_a_wait_at_once():
    desk = Desk([failure(UNAVAILABLE), "answer"])
    waiting = asyncio.Event()

    async def forever(_seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(desk.policy(sleep=forever).run(desk.call))
    await asyncio.wait_for(waiting.wait(), 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert desk.log == ["call"]


async def test_an_error_of_another_kind_passes_through():
    async def broken() -> str:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await RetryPolicy().run(broken)


async def test_a_document_s_policy_takes_the_place_of_attempts_and_waits():
    spec = RetrySpec(max_retries=2, initial_delay_s=3, backoff_factor=2, max_delay_s=5, jitter="none")
    desk = Desk([failure(UNAVAILABLE, status=503)] * 9)
    with pytest.raises(ModelError):
        await desk.policy(max_attempts=1).under(spec).run(desk.call)
    assert desk.waits == [3, 5]


async def test_a_document_without_a_policy_changes_nothing():
    policy = RetryPolicy()
    assert policy.under(None) is policy


@pytest.mark.parametrize(
    ("error", "tries"),
    [
        (failure(LIMITED, status=429), 2),
        (failure(UNAVAILABLE), 2),
        (failure(UNAVAILABLE, status=501), 1),
        (failure(REJECTED, retryable=False, status=404), 2),
        (failure(REJECTED, retryable=False, status=418, code="teapot"), 2),
        (failure(REJECTED, retryable=False, status=418, code="kettle"), 1),
        (failure(REJECTED, retryable=False, status=401), 1),
        (failure(REJECTED, retryable=False, status=429), 1),  # a spent quota
        (failure(UNAVAILABLE, retryable=False, status=503), 1),  # the server says so
        (failure(ErrorClassification.CONTEXT_TOO_LONG, retryable=False, status=413), 1),
    ],
)
async def test_a_document_s_policy_says_what_is_tried_again(error: ModelError, tries: int):
    statuses = {"404": (), "401": (), "413": (), "418": ("teapot",), "429": ()}
    desk = Desk([error] * 3)
    with pytest.raises(ModelError):
        await desk.policy().under(RetrySpec(max_retries=1, statuses=statuses)).run(desk.call)
    assert desk.log.count("call") == tries


async def test_a_server_s_wish_and_the_time_limit_hold_under_a_document_s_policy():
    spec = RetrySpec(max_retries=9, initial_delay_s=1, jitter="none")
    desk = Desk([failure(LIMITED, status=429, retry_after_s=7.0)] * 9)
    with pytest.raises(ModelError):
        await desk.policy(max_elapsed_s=20).under(spec).run(desk.call)
    assert desk.waits == [7, 7]


async def test_a_document_s_time_limit_ends_each_attempt():
    spec = RetrySpec(max_retries=1, request_timeout_s=0.01, initial_delay_s=0, jitter="none")
    calls = 0

    async def silent() -> str:
        nonlocal calls
        calls += 1
        return await asyncio.Future()

    with pytest.raises(ModelError, match=r"within the 0\.01 s") as caught:
        await RetryPolicy().under(spec).run(silent)
    assert calls == 2
    assert caught.value.classification is UNAVAILABLE


class Admission:
    """Takes its time to enter, and tells of both ends."""

    def __init__(self, desk: Desk, *, waits_s: float) -> None:
        self._desk = desk
        self._waits_s = waits_s

    async def __aenter__(self) -> None:
        self._desk.log.append("enter")
        self._desk.now += self._waits_s

    async def __aexit__(self, *_: object) -> None:
        self._desk.log.append("leave")


async def test_each_try_is_admitted_anew_and_none_keeps_its_place_while_it_waits() -> None:
    desk = Desk([failure(UNAVAILABLE), "answer"])
    assert await desk.policy().run(desk.call, admission=Admission(desk, waits_s=1.0)) == "answer"
    assert desk.log == ["enter", "call", "leave", "sleep", "enter", "call", "leave"]


async def test_the_time_it_takes_to_be_admitted_counts_for_no_limit() -> None:
    desk = Desk([failure(UNAVAILABLE)] * 3, call_s=4.0)
    with pytest.raises(ModelError):
        await desk.policy(max_elapsed_s=10.0).run(desk.call, admission=Admission(desk, waits_s=500.0))
    # 4 s, a wait of 0.5, 4 s: a wait of 1.0 still fits in, another 4 s do not.
    assert desk.log.count("call") == 3
