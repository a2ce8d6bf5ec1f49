"""The reaper: one process is elected and acts; due timers and marks are seen to."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from tests.integration.broker.watch import TroubledLink, Watch, until

from retinue.broker.reaper.reaper import sweep
from retinue.contract import ErrorClassification, Phase, SubagentState
from retinue.store import keys
from retinue.store.operations import control
from retinue.store.record import WakeUp
from retinue.store.store import AsyncStore
from retinue.testing.proxy import FaultProxy

CANCELLED, INTERRUPTED = SubagentState.CANCELLED, SubagentState.INTERRUPTED


async def test_of_two_processes_one_acts(watch: Watch) -> None:
    first, second = watch.reaper("p1"), watch.reaper("p2")
    run = watch.stage.root(timeout_ms=60_000)
    await first.tick()
    watch.stage.expire_deadline(run)

    await second.tick()
    assert watch.stage.state(run) is SubagentState.PENDING
    assert watch.server.get(keys.REAPER) == "p1"

    await first.tick()
    assert watch.stage.state(run) is INTERRUPTED


async def test_the_other_takes_over_once_the_election_has_run_out(watch: Watch) -> None:
    first, second = watch.reaper("p1"), watch.reaper("p2")
    await first.tick()
    assert 0 < watch.server.pttl(keys.REAPER) <= watch.settings.lease_seconds * 1000
    run = watch.stage.root(timeout_ms=60_000)
    watch.stage.expire_deadline(run)
    watch.server.delete(keys.REAPER)

    await second.tick()

    assert watch.server.get(keys.REAPER) == "p2"
    assert watch.stage.state(run) is INTERRUPTED


async def test_an_election_from_before_the_clock_was_put_back_lasts_no_longer_than_any(watch: Watch) -> None:
    watch.server.set(keys.REAPER, "dead", px=3_600_000)

    await watch.reaper("p1").tick()

    assert watch.server.get(keys.REAPER) == "dead", "it may be alive, and renew"
    assert 0 < watch.server.pttl(keys.REAPER) <= watch.settings.lease_seconds * 1000


async def test_a_deposed_process_acts_no_more(watch: Watch, caplog: pytest.LogCaptureFixture) -> None:
    first = watch.reaper("p1")
    await first.tick()
    run = watch.stage.root(timeout_ms=60_000)
    watch.stage.expire_deadline(run)
    watch.server.set(keys.REAPER, "p2")

    with caplog.at_level(logging.INFO, "retinue.reaper"):
        await first.tick()

    assert watch.stage.state(run) is SubagentState.PENDING
    assert caplog.messages == ["reaper.deposed process=p1"]


async def test_a_tick_is_cut_before_the_election_that_it_acts_under_runs_out(watch: Watch) -> None:
    watch.settings = watch.settings.model_copy(update={"lease_seconds": 1.0})
    root = watch.stage.root()
    _, (child,) = watch.stage.waiting(root, timeout_ms=60_000)
    watch.stage.expire_deadline(child)
    cut = asyncio.Event()

    class Stuck:
        async def send(self, *wakeups: WakeUp) -> bool:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                assert watch.server.get(keys.REAPER) == "p1", "still nobody else's turn"
                cut.set()
                raise
            return True

    loop = asyncio.create_task(watch.reaper("p1", Stuck()).run())
    await asyncio.wait_for(cut.wait(), 30)
    loop.cancel()
    await asyncio.wait([loop])


async def test_a_queued_run_past_its_deadline_is_ended_and_its_parent_woken(watch: Watch) -> None:
    stage = watch.stage
    root = stage.root()
    _, (child, other) = stage.waiting(root, 2, timeout_ms=60_000)
    stage.expire_deadline(child)
    reaper = watch.reaper("p1")

    await reaper.tick()
    assert stage.state(child) is INTERRUPTED
    assert stage.record(child).classification is ErrorClassification.DEADLINE_EXCEEDED
    assert stage.record(root).phase is Phase.WAITING_CHILDREN, "the other child still runs"
    assert watch.messages() == []

    stage.expire_deadline(other)
    await reaper.tick()
    assert stage.record(root).phase is Phase.QUEUED
    assert watch.messages() == [root.run_id]
    stage.audit()


async def test_a_suspended_run_past_its_deadline_is_ended_with_all_below_it(watch: Watch) -> None:
    stage = watch.stage
    root = stage.root(timeout_ms=60_000)
    _, (middle,) = stage.waiting(root)
    _, children = stage.waiting(middle, 3)
    stage.expire_deadline(root)
    reaper = watch.reaper("p1")

    await reaper.tick()
    assert stage.state(root) is INTERRUPTED
    await reaper.tick()  # what is below it follows by a timer of its own

    assert [stage.state(run) for run in (middle, *children)] == [CANCELLED] * 4
    assert stage.due() == {}
    assert watch.messages() == [], "nobody is left to be woken"
    stage.audit()


async def test_a_run_on_a_worker_past_its_deadline_is_left_to_that_worker(watch: Watch) -> None:
    stage = watch.stage
    run = stage.root(timeout_ms=60_000)
    attempt = stage.asking(run)
    stage.expire_deadline(run)

    await watch.reaper("p1").tick()

    assert stage.state(run) is SubagentState.RUNNING
    assert run.run_id in stage.due(), "looked at again later"
    assert stage.run(attempt.model())


async def test_what_is_not_due_yet_is_left_alone(watch: Watch) -> None:
    stage = watch.stage
    stage.root(timeout_ms=60_000)
    before = stage.dump()

    await watch.reaper("p1").tick()

    assert stage.dump() == before


async def test_more_runs_than_one_script_takes_are_ended_in_one_tick_whatever_their_tenant(
    watch: Watch,
) -> None:
    stages = [watch.stage, *(watch.new_stage() for _ in range(3))]
    runs = [(stage, stage.root(timeout_ms=60_000)) for stage in stages for _ in range(60)]
    for stage, run in runs:
        stage.expire_deadline(run)

    await watch.reaper("p1").tick()

    assert {stage.state(run) for stage, run in runs} == {INTERRUPTED}


async def test_a_cancel_whose_caller_died_right_after_the_mark_is_finished(watch: Watch) -> None:
    stage = watch.stage
    root = stage.root(max_live_children=200)
    attempt = stage.calling(root, *["run_agent"] * 120)
    children = [stage.new_child(attempt, index) for index in range(120)]
    for start in (0, 60):
        stage.launch(*children[start : start + 60], parent=attempt.as_parent(1))
    runs = [stage.key(child.run_id) for child in children]
    stage.run(attempt.suspend(runs))
    stage.cancel(root)

    await watch.reaper("p1").tick()

    assert {stage.state(run) for run in (root, *runs)} == {CANCELLED}
    assert stage.live(root) == []
    assert stage.due() == {}
    assert watch.messages() == [], "a parent under the mark is not woken"
    stage.audit()


async def test_a_cancelled_subtree_wakes_the_parent_outside_of_it(watch: Watch) -> None:
    stage = watch.stage
    root = stage.root()
    _, (child,) = stage.waiting(root)
    stage.cancel(child)

    await watch.reaper("p1").tick()

    assert stage.state(child) is CANCELLED
    assert watch.messages() == [root.run_id]


async def test_a_marked_run_on_a_worker_is_hinted_at_until_its_worker_ends_it(watch: Watch) -> None:
    stage = watch.stage
    run = stage.root()
    attempt = stage.asking(run)
    stage.cancel(run)
    hints: Any = watch.server.pubsub(ignore_subscribe_messages=True)
    hints.subscribe(keys.process_channel(stage.process("p1")))
    hints.get_message(timeout=30)  # the confirmation

    await watch.reaper("p1").tick()

    assert hints.get_message(timeout=30)["data"] == f"{run.run_id} cancel"
    assert stage.state(run) is SubagentState.CANCEL_REQUESTED
    assert run.run_id in stage.due()
    stage.run(attempt.finish(CANCELLED))
    assert stage.due() == {}
    hints.close()


async def test_one_broken_entry_holds_nobody_up(watch: Watch, caplog: pytest.LogCaptureFixture) -> None:
    stage = watch.stage
    broken, run = stage.root(), stage.root(timeout_ms=60_000)
    stage.expire_deadline(run)
    watch.server.hset(broken.record, "path", "")  # as no version of ours would write it
    watch.server.zadd(keys.due(stage.partition), {"acme/no-run-of-ours": 0, broken.member: 1})

    await watch.reaper("p1").tick()

    assert stage.state(run) is INTERRUPTED
    assert sorted(record.levelname for record in caplog.records) == ["ERROR", "ERROR"]


@pytest.mark.parametrize("part", ["casualties", "timers", "stranded", "shortfall"])
async def test_a_fault_in_one_part_of_a_tick_keeps_no_other_from_its_work(
    watch: Watch, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, part: str
) -> None:
    async def broken(*_: Any) -> None:
        raise KeyError("never met before")

    target = {
        "casualties": "casualties.Casualties.look",
        "timers": "reaper.Reaper._timers",
        "stranded": "stranded.Stranded.look",
        "shortfall": "shortfall.Shortfall.look",
    }
    monkeypatch.setattr(f"retinue.broker.reaper.{target[part]}", broken)
    await watch.worker("p1", agents=["support"])
    dying = await watch.worker(watch.stage.process("p2"), agents=["support"])
    late = watch.stage.root(timeout_ms=60_000)
    held = watch.stage.root()
    watch.stage.claim(held, process="p2")
    watch.kill(dying)
    watch.stage.expire_deadline(late)
    [lonely] = await watch.queued(1, message=True, agent="researcher")
    lost = await watch.queued(2, message=False)
    reaper = watch.reaper("p1")

    for _ in range(3):
        await reaper.tick()

    done = {
        "casualties": watch.stage.record(held).phase is Phase.QUEUED,
        "timers": watch.stage.state(late) is INTERRUPTED,
        "stranded": watch.stage.record(lonely).phase is Phase.NO_WORKER,
        "shortfall": set(watch.messages()) >= {run.run_id for run in lost},
    }
    assert done == {name: name != part for name in done}
    told = [record.levelname for record in caplog.records if f"part={part} " in record.message]
    assert told == ["ERROR"] * 3


async def test_the_loop_goes_on_after_the_store_was_away(watch: Watch) -> None:
    watch.settings = watch.settings.model_copy(update={"lease_seconds": 1.0})
    stage = watch.stage
    run = stage.root(timeout_ms=60_000)
    stage.expire_deadline(run)
    watch.link.fail_at = {"elect": 1, "timer": 1}

    loop = asyncio.create_task(watch.reaper("p1").run())
    await until(lambda: stage.state(run) is INTERRUPTED)
    loop.cancel()
    await asyncio.wait([loop])

    assert watch.link.calls["elect"] >= 3


async def test_a_sweep_goes_through_all_chunks(watch: Watch) -> None:
    stage = watch.stage
    root = stage.root(max_live_children=200)
    attempt = stage.calling(root, *["run_agent"] * 100)
    children = [stage.new_child(attempt, index) for index in range(100)]
    stage.launch(*children, parent=attempt.as_parent(1))
    stage.cancel(root)

    assert await sweep(watch.store, watch.waker, root) == 100
    assert watch.link.calls["sweep"] == 3
    assert (await watch.store.run(control.sweep(root))).running == 1


async def test_on_a_slow_network_each_part_has_an_election_of_its_own(watch: Watch) -> None:
    """A process that died is noticed, and a lost message is sent again, however long a tick takes."""
    watch.settings = watch.settings.model_copy(update={"lease_seconds": 1.5})
    await watch.worker("p1")
    dead = await watch.worker("p2")
    watch.kill(dead)
    [run] = await watch.queued(1, message=False)
    with FaultProxy(watch.server.connection_pool.connection_kwargs["port"]) as way:
        # A lease is as long as 15 round trips: fewer than a tick takes, more than any part of it.
        way.delay(0.05)
        direct, watch.link = watch.link, TroubledLink(way.url)
        watch.store = AsyncStore(watch.link)
        loop = asyncio.create_task(watch.reaper("p1").run())
        await until(lambda: watch.messages() == [run.run_id], 30)
        await until(lambda: not watch.server.hexists(keys.WORKERS, dead), 30)
        loop.cancel()
        await asyncio.wait([loop])
        await watch.link.close()
        watch.link = direct
