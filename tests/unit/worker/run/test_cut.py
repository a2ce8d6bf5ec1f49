"""What cuts the wait for work in flight, and what an alarm without a mark does not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from retinue.worker.run.alarm import Alarm
from retinue.worker.run.asking import Aborted, ask
from retinue.worker.run.cut import Cut, let_go, until_done
from retinue.worker.run.deadline import out_of_time
from retinue.worker.run.outcome import Fenced


class Run:
    """As much of a held run as the wait asks for."""

    def __init__(self, *, timeout_s: float | None = None) -> None:
        self.key = self.record = SimpleNamespace(tenant="_", run_id="sa-p07-" + "a" * 26)
        self.key.record = "record"
        self.alarm, self.hush = Alarm(), asyncio.Event()
        self.is_lost = False
        self.thread: list[str] = []
        self.partial = None
        self.spec: Any = SimpleNamespace(
            tools=(), built_in_tools=(), model="m", llm=None, instructions="", params={}
        )
        self.grant = None
        self.deadline = None if timeout_s is None else time.monotonic() + timeout_s
        self.is_out_of_time = False

    def lose(self) -> None:
        self.is_lost = True
        self.raise_alarm()

    def raise_alarm(self) -> None:
        self.alarm.set()
        self.hush.set()

    @property
    def seconds_left(self) -> float | None:
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())


class Marks:
    """The answers to each look at the run's mark, and then at its deadline, in turn."""

    def __init__(self, *stands: bool, left_ms: Sequence[int | None] = (), awaits_human: bool = False) -> None:
        self._stands = list(stands)
        self._left_ms = list(left_ms)
        self._awaits_human = awaits_human
        self.looked = asyncio.Event()

    async def run(self, _call: object) -> Any:
        self.looked.set()
        if self._stands:
            return SimpleNamespace(under_cancel=self._stands.pop(0))
        left_ms = self._left_ms.pop(0)
        record = SimpleNamespace(time_left_ms=lambda _now_ms: left_ms, awaits_human=self._awaits_human)
        return SimpleNamespace(now_ms=1, record=record)


def services(store: Marks) -> Any:
    return SimpleNamespace(store=store)


async def stay(ended: asyncio.Event) -> str:
    """Goes on whatever cancels it."""
    while not ended.is_set():
        try:
            await ended.wait()
        except asyncio.CancelledError:
            continue
    return "ended"


async def test_work_that_ends_is_not_cut() -> None:
    run: Any = Run(timeout_s=60)
    work = [asyncio.create_task(asyncio.sleep(0, n)) for n in range(3)]
    assert await until_done(services(Marks()), run, work, grace_s=9) is None
    assert [task.result() for task in work] == [0, 1, 2]
    assert await until_done(services(Marks()), run, [], grace_s=9) is None


async def test_a_failure_ends_the_wait_though_other_work_goes_on() -> None:
    async def fail() -> None:
        raise KeyError("a")

    run: Any = Run()
    failed, other = asyncio.create_task(fail()), asyncio.create_task(asyncio.Event().wait())
    async with asyncio.timeout(30):
        assert await until_done(services(Marks()), run, [failed, other], grace_s=9) is None
    assert isinstance(failed.exception(), KeyError)
    assert not other.done()
    await let_go([other], within_s=1)


async def test_the_deadline_cuts_and_leaves_the_work_to_be_let_go() -> None:
    run: Any = Run(timeout_s=0.05)
    work = asyncio.create_task(asyncio.Event().wait())
    assert await until_done(services(Marks(left_ms=[0])), run, [work], grace_s=9) is Cut.DEADLINE
    assert run.is_out_of_time, "its tools ask for it"
    assert not work.done()
    assert await let_go([work], within_s=30) == set()
    assert work.cancelled()


async def test_a_deadline_that_moved_while_a_human_was_awaited_does_not_cut() -> None:
    run: Any = Run(timeout_s=0.02)
    work = asyncio.create_task(asyncio.Event().wait())
    store = Marks(left_ms=[30, 20, 0])
    async with asyncio.timeout(5):
        assert await until_done(services(store), run, [work], grace_s=9) is Cut.DEADLINE
    assert not store._left_ms, "asked each time that its own clock said so"
    await let_go([work], within_s=1)


@pytest.mark.parametrize(("left_ms", "next_s"), [(0, 1), (200, 1), (5_000, 5)])
async def test_a_deadline_that_stands_still_is_looked_at_again_and_not_all_the_time(
    left_ms: int, next_s: int
) -> None:
    run: Any = Run(timeout_s=0)
    store: Any = Marks(left_ms=[left_ms], awaits_human=True)
    assert not await out_of_time(store, run)
    assert run.seconds_left == pytest.approx(next_s, abs=0.5)
    assert not await out_of_time(store, run), "its own clock says that there is time"


async def test_a_deadline_that_is_none_any_more_is_not_asked_for_again() -> None:
    run: Any = Run(timeout_s=0)
    store: Any = Marks(left_ms=[None])
    assert not await out_of_time(store, run)
    assert run.seconds_left is None


async def test_a_cancel_cuts_once_its_grace_is_over() -> None:
    run: Any = Run()
    work = asyncio.create_task(asyncio.Event().wait())
    run.alarm.set()
    before = time.monotonic()
    assert await until_done(services(Marks(True)), run, [work], grace_s=0.2) is Cut.CANCEL
    assert time.monotonic() - before >= 0.2
    assert run.alarm.is_set(), "tools ask for it until the run has ended"
    await let_go([work], within_s=1)


async def test_work_that_ends_within_its_grace_is_not_cut() -> None:
    run: Any = Run()
    run.alarm.set()
    work = asyncio.create_task(asyncio.sleep(0.05))
    assert await until_done(services(Marks()), run, [work], grace_s=60) is None


async def test_a_lost_run_is_cut_at_once_and_nobody_asks_for_a_mark() -> None:
    run: Any = Run(timeout_s=60)
    work = asyncio.create_task(asyncio.Event().wait())
    waiting = asyncio.create_task(until_done(services(Marks()), run, [work], grace_s=60))
    await asyncio.sleep(0)
    run.lose()
    async with asyncio.timeout(30):
        assert await waiting is Cut.LOST
    await let_go([work], within_s=1)


async def test_a_run_that_is_lost_within_a_grace_is_not_owed_the_rest_of_it() -> None:
    run: Any = Run()
    run.alarm.set()
    work = asyncio.create_task(asyncio.Event().wait())
    waiting = asyncio.create_task(until_done(services(Marks()), run, [work], grace_s=60))
    await asyncio.sleep(0)
    run.lose()
    async with asyncio.timeout(30):
        assert await waiting is Cut.LOST
    await let_go([work], within_s=1)


async def test_a_run_that_is_lost_while_its_mark_is_read_is_cut_though_the_alarm_is_lowered() -> None:
    class Losing(Marks):
        async def run(self, call: object) -> Any:
            run.lose()
            return await super().run(call)

    run: Any = Run()
    run.alarm.set()
    work = asyncio.create_task(asyncio.Event().wait())
    async with asyncio.timeout(30):
        assert await until_done(services(Losing(False)), run, [work], grace_s=0) is Cut.LOST
    await let_go([work], within_s=1)


async def test_the_deadline_cuts_a_grace_short() -> None:
    run: Any = Run(timeout_s=0.05)
    run.alarm.set()
    work = asyncio.create_task(asyncio.Event().wait())
    async with asyncio.timeout(30):
        store = Marks(False, left_ms=[0])
        assert await until_done(services(store), run, [work], grace_s=60) is Cut.DEADLINE
    await let_go([work], within_s=1)


async def test_an_alarm_whose_mark_was_lost_is_lowered_and_the_work_goes_on() -> None:
    run: Any = Run()
    marks, ended = Marks(False, True), asyncio.Event()
    work = asyncio.create_task(ended.wait())
    run.alarm.set()
    waiting = asyncio.create_task(until_done(services(marks), run, [work], grace_s=0))
    await marks.looked.wait()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not run.alarm.is_set()
    assert not waiting.done()
    run.alarm.set()
    assert await waiting is Cut.CANCEL
    await let_go([work], within_s=1)


async def test_work_that_will_not_end_is_left_behind_in_time() -> None:
    ended = asyncio.Event()
    work = asyncio.create_task(stay(ended))
    await asyncio.sleep(0)
    assert await let_go([work], within_s=0.05) == {work}
    ended.set()
    assert await work == "ended"


def _asking(**services: Any) -> Any:
    """As much of the services as a request needs whose model never answers."""

    async def never(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    policy = SimpleNamespace(run=never)
    policy.under = lambda _spec: policy
    unlimited = SimpleNamespace(of=lambda *_: None)
    return SimpleNamespace(
        retries=policy, admissions=unlimited, model=None, provider=lambda *_: None, store=None, **services
    )


@pytest.fixture
def no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is made of the run's spec."""
    monkeypatch.setattr("retinue.worker.run.asking.model_request", lambda *_: None)


@pytest.mark.usefixtures("no_request")
async def test_a_model_request_that_an_alarm_drops_lowers_it_so_that_a_lost_mark_costs_one_boundary() -> None:
    run: Any = Run()
    run.raise_alarm()
    assert isinstance(await ask(_asking(), run, 1, []), Aborted)
    assert not run.alarm.is_set()
    assert not run.hush.is_set()


@pytest.mark.usefixtures("no_request")
async def test_an_interrupt_drops_a_model_request_and_is_no_alarm_to_a_tool() -> None:
    run: Any = Run()
    asking = asyncio.create_task(ask(_asking(), run, 1, []))
    await asyncio.sleep(0)
    run.hush.set()
    async with asyncio.timeout(5):
        assert isinstance(await asking, Aborted)
    run.hush.set()
    work = asyncio.create_task(asyncio.sleep(0))
    assert await until_done(services(Marks()), run, [work], grace_s=0) is None, "no mark is asked for"


@pytest.mark.usefixtures("no_request")
async def test_a_model_request_of_a_lost_run_is_dropped_and_no_boundary_asked() -> None:
    run: Any = Run()
    asking = asyncio.create_task(ask(_asking(), run, 1, []))
    await asyncio.sleep(0)
    run.lose()
    async with asyncio.timeout(30):
        assert isinstance(await asking, Fenced)
