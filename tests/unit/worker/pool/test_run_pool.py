"""When the pool tells the hub that runs have ended."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from retinue.broker.envelope import WakeUpKind
from retinue.worker.pool.reports import ReceivedWakeUp, Succeeded, TaskReport
from retinue.worker.pool.requests import RunRequest
from retinue.worker.pool.run_pool import RunPool


class Hub:
    """Celery's loop, as far as the pool uses it: what it is to call, it calls when the test says so."""

    def __init__(self) -> None:
        self.called = threading.Semaphore(0)
        self.due: list[Callable[[], object]] = []

    def call_soon(self, callback: Callable[[], object]) -> None:
        self.due.append(callback)
        self.called.release()

    def run(self) -> int:
        """Waits until it is called, and does what is due; how many calls that were."""
        assert self.called.acquire(timeout=30), "the hub was not told"
        due, self.due = self.due, []
        for callback in due:
            callback()
        return len(due)


class GatedRuntime:
    """Every run goes on until the gate is opened, and ends in the same round of the loop as the others."""

    takes_work = True

    async def start(self) -> None:
        self._loop, self._gate = asyncio.get_running_loop(), asyncio.Event()

    async def run(self, task: ReceivedWakeUp) -> TaskReport:
        await self._gate.wait()
        return Succeeded(task.run_id)

    async def stop(self, timeout_s: float) -> None:
        self._gate.set()

    def take_canary(self, nonce: str) -> None:
        """None is sent."""

    def open(self) -> None:
        self._loop.call_soon_threadsafe(self._gate.set)


@pytest.fixture
def collector() -> Iterator[None]:
    """The test process's garbage collector is left as it was found."""
    threshold = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)


@pytest.fixture
def make(collector: None) -> Iterator[Callable[[int], tuple[RunPool, Hub, GatedRuntime]]]:
    """Makes a started pool with so many slots."""
    pools: list[RunPool] = []

    def start(limit: int) -> tuple[RunPool, Hub, GatedRuntime]:
        hub, runtime = Hub(), GatedRuntime()

        def factory(_app: object, _pool: object) -> GatedRuntime:
            return runtime

        conf: dict[str, Any] = {"retinue_runtime": factory, "retinue_drain_seconds": 1}
        pool = RunPool(limit, app=SimpleNamespace(conf=conf))
        pool.on_start()
        pool.register_with_event_loop(hub)
        pools.append(pool)
        return pool, hub, runtime

    yield start
    for pool in pools:
        pool.on_stop()


def submit(pool: RunPool, number: int) -> None:
    run_id = f"run-{number}"
    wakeup = ReceivedWakeUp("_", run_id, 1, WakeUpKind.DELEGATE, f"{run_id}.1")
    pool.submit(RunRequest(wakeup, None, name="agent", root_id=None, parent_id=None, message=None))


def test_runs_that_end_together_cost_one_call_of_the_hub_and_free_all_their_slots(
    make: Callable[[int], tuple[RunPool, Hub, GatedRuntime]],
) -> None:
    pool, hub, runtime = make(500)
    for number in range(10):
        submit(pool, number)
    assert pool.free_slots() == 490
    runtime.open()
    assert hub.run() == 1
    assert pool.free_slots() == 500


def test_a_slot_that_the_hub_may_wait_for_is_told_of_without_delay(
    make: Callable[[int], tuple[RunPool, Hub, GatedRuntime]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retinue.worker.pool.run_pool._REPORT_S", 3600.0)
    pool, hub, runtime = make(1)
    submit(pool, 1)
    runtime.open()
    assert hub.run() == 1
    assert pool.free_slots() == 1


def test_what_was_not_told_yet_is_told_when_the_pool_stops(
    make: Callable[[int], tuple[RunPool, Hub, GatedRuntime]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retinue.worker.pool.run_pool._REPORT_S", 3600.0)
    pool, hub, _ = make(500)
    submit(pool, 1)
    pool.on_stop()
    assert not hub.due
    assert pool.info["running"] == 0
