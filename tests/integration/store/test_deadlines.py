"""Deadlines: counted from the launch, capped by the parent's, kept by whoever meets them first."""

from __future__ import annotations

import time

from tests.integration.store.stage import Stage

from retinue.contract import ErrorClassification, SubagentState
from retinue.store.operations import control
from retinue.store.replies import Ended, Queued, Stale, Stopped


def test_a_time_out_counts_from_the_launch_and_stands_among_the_timers(stage: Stage) -> None:
    root = stage.root(timeout_ms=60_000)
    record = stage.record(root)
    assert record.deadline_ms == record.created_ms + 60_000
    assert stage.due() == {root.run_id: record.deadline_ms}


def test_a_childs_deadline_is_at_most_its_parents(stage: Stage) -> None:
    root = stage.root(timeout_ms=60_000)
    parent = stage.calling(root, *["run_agent"] * 3)
    limit = stage.record(root).deadline_ms
    longer, none, shorter = (
        stage.child(parent, index, timeout_ms=timeout) for index, timeout in enumerate((90_000, 0, 1_000))
    )
    assert stage.record(longer).deadline_ms == stage.record(none).deadline_ms == limit
    assert stage.record(shorter).deadline_ms == stage.record(shorter).created_ms + 1_000
    assert stage.due()[none.run_id] == limit


def test_a_boundary_past_the_deadline_is_closed(stage: Stage) -> None:
    root = stage.root(timeout_ms=60_000)
    attempt = stage.claim(root)
    stage.expire_deadline(root)
    before = stage.dump()
    assert stage.run(attempt.boundary()) == Stopped("DEADLINE")
    assert stage.dump() == before
    stage.run(attempt.finish(SubagentState.INTERRUPTED, ErrorClassification.DEADLINE_EXCEEDED))
    assert stage.due() == {}


def test_the_timer_ends_a_waiting_run_that_is_out_of_time(stage: Stage) -> None:
    root = stage.root(timeout_ms=60_000)
    _, (child,) = stage.waiting(root)
    stage.expire_deadline(root)
    assert stage.run(control.timer(root, again_ms=1000)) == Ended(SubagentState.INTERRUPTED, None)
    record = stage.record(root)
    assert record.classification is ErrorClassification.DEADLINE_EXCEEDED
    assert stage.state(child) is SubagentState.CANCEL_REQUESTED, "it follows its parent"
    assert stage.due()[root.run_id] == 0
    stage.sweep(root)
    assert stage.run(control.timer(root, again_ms=1000)) is None
    assert stage.due() == {}


def test_the_timer_of_a_queued_child_answers_and_wakes_its_parent(stage: Stage) -> None:
    root = stage.root()
    _, (child,) = stage.waiting(root, timeout_ms=60_000)
    stage.expire_deadline(child)
    ended = stage.run(control.timer(child, again_ms=1000))
    assert ended.state is SubagentState.INTERRUPTED
    assert ended.wakeup.run_id == root.run_id
    assert stage.claim(root).claimed.journal["1:0"].startswith('"[DEADLINE_EXCEEDED]')


def test_the_timer_leaves_a_run_on_a_worker_alone_and_looks_again(stage: Stage) -> None:
    root = stage.root(timeout_ms=60_000)
    attempt = stage.asking(root)
    stage.expire_deadline(root)
    seconds, _ = stage.server.time()
    assert stage.run(control.timer(root, again_ms=30_000)) is None
    assert stage.due()[root.run_id] >= seconds * 1000 + 29_000
    assert isinstance(stage.run(attempt.hand_back()), Queued)
    assert stage.run(control.timer(root, again_ms=1000)).state is SubagentState.INTERRUPTED


def test_the_timer_ends_a_run_whose_worker_does_not(stage: Stage) -> None:
    """Its deadline was a second ago; a worker that is stuck in the run finds it gone."""
    root = stage.root(timeout_ms=60_000)
    attempt = stage.asking(root)
    stage.expire_deadline(root)
    assert stage.run(control.timer(root, again_ms=0, grace_ms=60_000)) is None
    assert stage.run(control.timer(root, again_ms=0, grace_ms=500)) == Ended(SubagentState.INTERRUPTED, None)
    assert stage.record(root).classification is ErrorClassification.DEADLINE_EXCEEDED
    assert stage.owned() == []
    before = stage.dump()
    assert stage.run(attempt.finish()) == Stale()
    assert stage.run(attempt.model()) == Stale()
    assert stage.dump() == before


def test_a_timer_before_its_time_is_set_back_to_the_deadline(stage: Stage) -> None:
    root = stage.root(timeout_ms=60_000)
    deadline = stage.record(root).deadline_ms
    stage.server.zadd(f"retinue:{{p{stage.partition:02d}}}:due", {root.member: 5})
    assert stage.run(control.timer(root, again_ms=1000)) is None
    assert stage.due() == {root.run_id: deadline}


def test_a_timer_of_nothing_is_removed(stage: Stage) -> None:
    idle, ended, gone = stage.root(), stage.root(), stage.key(stage.new_run().run_id)
    stage.end(ended)
    due = f"retinue:{{p{stage.partition:02d}}}:due"
    for run in (idle, ended, gone):
        stage.server.zadd(due, {run.member: 5})
        assert stage.run(control.timer(run, again_ms=1000)) is None
    assert stage.due() == {}
    assert stage.state(idle) is SubagentState.PENDING


def test_the_servers_own_clock_decides(stage: Stage) -> None:
    """The one test that waits for the real moment, a few milliseconds away."""
    root = stage.root(timeout_ms=30)
    give_up = time.monotonic() + 30
    while (ended := stage.run(control.timer(root, again_ms=1))) is None:
        assert time.monotonic() < give_up
    assert ended == Ended(SubagentState.INTERRUPTED, None)
    record = stage.record(root)
    assert record.finished_ms >= record.deadline_ms
