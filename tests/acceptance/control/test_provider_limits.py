"""Limits of providers on two worker processes: kept by both together, as the server counts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.acceptance.run_rig import RunRig, run_rig

from retinue.client import SubagentLifecycle
from retinue.contract import TERMINAL_STATES, ErrorClassification, SubagentHandle, SubagentState
from retinue.store import keys
from retinue.testing.faults import rate_limited
from retinue.testing.workers import WorkerProcess

LIMITS: dict[str, dict[str, int]] = {
    "narrow": {"max_concurrency": 4},
    "metered": {"requests_per_minute": 120},
    "counted": {"tokens_per_minute": 12_000},
    "moody": {"max_concurrency": 30},
    "frail": {"max_concurrency": 4},
    "single": {"max_concurrency": 1},
    "free": {},
}


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    directory = tmp_path_factory.mktemp("limits")
    with run_rig(directory, agents="control.limited_agents", latency_s=0.03) as rig:
        for name in ("narrow", "metered", "counted", "moody", "free"):
            rig.model.script(name).say(f"{name} says").repeat_last()
        yield rig


@pytest.fixture
def lifecycle(rig: RunRig, request: pytest.FixtureRequest) -> SubagentLifecycle:
    """Of a session of the test's own."""
    return rig.lifecycle(request.node.name[:64])


def worker(rig: RunRig, **options: Any) -> WorkerProcess:
    """One more that knows the limits."""
    providers = {
        name: {"base_url": rig.model.base_url, "api_key": "test-key", **limits}
        for name, limits in LIMITS.items()
    }
    options = {"concurrency": 30, "queues": ["retinue"], **options}
    return rig.worker(settings={"providers": providers}, **options)


@pytest.fixture
def two_workers(rig: RunRig) -> list[WorkerProcess]:
    """Those of the usual queue; started where a test before has ended them."""
    running = [each for each in rig.workers if each.running]
    return [*running, *(worker(rig) for _ in range(2 - len(running)))]


def launch(lifecycle: SubagentLifecycle, agent: str, count: int) -> list[SubagentHandle]:
    return lifecycle.launch_many([{"agent": agent, "goal": f"{agent} {n}"} for n in range(count)])


def all_succeed(rig: RunRig, lifecycle: SubagentLifecycle, handles: list[SubagentHandle]) -> None:
    results = [rig.result(lifecycle, handle) for handle in handles]
    assert {result.terminal_state for result in results} == {SubagentState.SUCCEEDED}


def arrivals(rig: RunRig, agent: str) -> list[float]:
    return [request.started_at for request in rig.model.requests(agent)]


def queued_at(rig: RunRig, provider: str) -> int:
    return rig.store.zcard(keys.provider_places(provider)[2])


@pytest.mark.usefixtures("two_workers")
def test_no_more_requests_are_in_flight_than_the_provider_takes_and_all_runs_finish(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    all_succeed(rig, lifecycle, launch(lifecycle, "narrow", 40))
    assert rig.model.count("narrow") == 40
    assert rig.model.peak("narrow") == 4


@pytest.mark.usefixtures("two_workers")
def test_requests_keep_to_the_rate_and_all_runs_finish(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    all_succeed(rig, lifecycle, launch(lifecycle, "metered", 20))
    came = arrivals(rig, "metered")
    assert len(came) == 20
    # A tenth goes at once, and then 109 a minute; the network may bring two closer together.
    for first, begin in enumerate(came):
        for last in range(first, len(came)):
            assert last - first <= 12 + (came[last] - begin + 0.5) * 109 / 60


@pytest.mark.usefixtures("two_workers")
def test_tokens_are_charged_by_estimate_and_corrected_by_what_was_used(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    # Each is taken for more than 200 tokens: five go at once, the others as these turn out to use less.
    began = time.monotonic()
    all_succeed(rig, lifecycle, launch(lifecycle, "counted", 15))
    took_s = time.monotonic() - began
    assert rig.model.peak("counted") <= 5
    assert took_s < 9, "uncorrected, ten times 200 tokens take 11 s"


@pytest.mark.usefixtures("two_workers")
def test_what_the_provider_asks_of_one_run_holds_the_runs_of_all_workers_back(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    rig.model.script("moody", when=lambda asked: asked.last_user == "moody first").say("yes").fault(
        rate_limited(retry_after_s=2)
    )
    first = lifecycle.launch(agent="moody", goal="moody first")
    buckets = keys.provider_places("moody")[0]
    rig.wait_until(lambda: bool(rig.store.hexists(buckets, "nb")), "the provider's wish is stored")
    others = launch(lifecycle, "moody", 20)
    all_succeed(rig, lifecycle, [first, *others])
    refused, *later = arrivals(rig, "moody")
    assert len(later) == 21
    assert min(later) - refused >= 1.9


def test_a_killed_workers_places_come_free(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    rig.keep_workers(0, concurrency=30)
    rig.model.script("frail").say("at last").hold("frail").repeat_last()
    doomed = worker(rig)
    handles = launch(lifecycle, "frail", 8)
    rig.model.wait_for(lambda server: server.in_flight("frail") == 4, timeout_s=20)
    rig.wait_until(lambda: queued_at(rig, "frail") == 4, "the others wait")
    worker(rig)
    doomed.kill()
    killed_at = time.monotonic()
    rig.model.wait_for(lambda server: server.in_flight("frail") == 0, timeout_s=10)
    rig.model.wait_for(lambda server: server.in_flight("frail") == 4, timeout_s=30)
    assert time.monotonic() - killed_at < 30, "long before the places would have come free by time"
    rig.model.release("frail")
    all_succeed(rig, lifecycle, handles)
    assert rig.model.peak("frail") == 4


def test_a_wait_ends_with_a_cancel_an_interrupt_the_deadline_or_the_worker(
    rig: RunRig, lifecycle: SubagentLifecycle, two_workers: list[WorkerProcess]
) -> None:
    rig.model.script("single").say("done").hold("single").repeat_last()
    rig.model.script("elsewhere").say("done elsewhere").repeat_last()
    away = worker(rig, queues=["elsewhere"])
    holder = lifecycle.launch(agent="single", goal="hold it")
    rig.model.wait_for(lambda server: server.in_flight("single") == 1, timeout_s=20)
    cancelled, interrupted, abroad = (
        lifecycle.launch(agent=agent, goal=goal)
        for agent, goal in (("single", "cancel"), ("single", "interrupt"), ("elsewhere", "drain"))
    )
    late = lifecycle.launch(agent="single", goal="deadline", timeout_seconds=1)
    rig.wait_until(lambda: queued_at(rig, "single") >= 3, "they wait")

    lifecycle.cancel(cancelled)
    lifecycle.interrupt(interrupted)
    assert rig.result(lifecycle, cancelled, timeout_s=10).terminal_state is SubagentState.CANCELLED
    assert (
        rig.result(lifecycle, interrupted, timeout_s=10).error_classification
        is ErrorClassification.INTERRUPT_REQUESTED
    )
    assert (
        rig.result(lifecycle, late, timeout_s=10).error_classification
        is ErrorClassification.DEADLINE_EXCEEDED
    )
    rig.wait_until(lambda: queued_at(rig, "single") == 1, "those that ended stand there no more")
    away.terminate()
    away.wait(15)
    assert queued_at(rig, "single") == 0
    assert lifecycle.status(abroad).state not in TERMINAL_STATES

    rig.model.release("single")
    worker(rig, queues=["elsewhere"])
    all_succeed(rig, lifecycle, [holder, abroad])
    assert rig.model.count("single") == 1
    assert rig.model.count("elsewhere") == 1


def test_runs_that_wait_keep_no_run_of_another_provider_out(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    rig.keep_workers(0, concurrency=1)
    worker(rig, concurrency=2)
    rig.store.zadd(keys.provider_places("single")[1], {"another:place:1": (time.time() + 50) * 1000})
    waiting = launch(lifecycle, "single", 2)
    rig.wait_until(lambda: queued_at(rig, "single") == 2, "both slots wait")
    all_succeed(rig, lifecycle, launch(lifecycle, "free", 3))
    assert queued_at(rig, "single") == 2
    assert not rig.store.exists(*keys.provider_places("free")), "a provider without limits is not counted"
    for handle in waiting:
        lifecycle.cancel(handle)
        assert rig.result(lifecycle, handle).terminal_state is SubagentState.CANCELLED
