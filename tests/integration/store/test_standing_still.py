"""Deadlines stand still while a human is awaited: that of the run that asks, and of all above it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.integration.store.attempt import REFUND, WHERE, Attempt
from tests.integration.store.stage import Stage

from retinue.contract import SubagentState
from retinue.store import keys
from retinue.store.call import RunKey
from retinue.store.operations import asking, control, reading
from retinue.store.operations.launching import Launched, ParentRefused
from retinue.store.replies import Begun, Claimed, Ended, HandedOff, Overtaken, Passed, Queued, Suspended

HOUR_MS = 3_600_000


def deadline(stage: Stage, run: RunKey) -> int:
    found = stage.record(run).deadline_ms
    assert found is not None
    return found


def family(stage: Stage) -> tuple[list[Attempt], list[RunKey]]:
    """A root, its child and grandchild, each waiting for the next; the last has called a tool."""
    root = stage.root(timeout_ms=HOUR_MS)
    first, (child,) = stage.waiting(root)
    second, (grandchild,) = stage.waiting(child)
    return [first, second, stage.calling(grandchild, "refund")], [root, child, grandchild]


def approve(stage: Stage, run: RunKey, slot: str = "1:0", *, by: str = "d1") -> asking.DecisionReply:
    return stage.run(asking.approve(run, above=run.run_id, slot=slot, decision_id=by))


def answer(stage: Stage, run: RunKey, slot: str) -> asking.DecisionReply:
    return stage.run(asking.answer(run, above=run.run_id, slot=slot, decision_id="d2", value="Ulm"))


def expire_request(stage: Stage, run: RunKey) -> None:
    name = stage.part(run, "run:{}:a")
    raw = stage.server.hget(name, "1:0")
    stage.server.hset(name, "1:0", re.sub(r'"expires_ms":\d+', '"expires_ms":1', raw, count=1))
    stage.server.zadd(keys.due(stage.partition), {run.member: 1})


def test_a_wait_for_a_human_moves_the_deadlines_of_the_asking_run_and_of_all_above_it(stage: Stage) -> None:
    attempts, runs = family(stage)
    before = [deadline(stage, run) for run in runs]
    stage.run(attempts[-1].ask(REFUND))
    assert [stage.record(run).awaits_human for run in runs] == [True] * 3
    assert [deadline(stage, run) for run in runs] == before
    stage.await_longer(*runs, ms=600_000)
    assert approve(stage, runs[-1]).refused is None
    for run, at in zip(runs, before, strict=True):
        assert 600_000 <= deadline(stage, run) - at < 660_000
        assert not stage.record(run).awaits_human
    # Whoever looks at a deadline finds it by its timer, which may come too early but never too late.
    assert all(stage.due()[run.run_id] <= deadline(stage, run) for run in runs)
    for run in runs:
        stage.server.zadd(keys.due(stage.partition), {run.member: 5})
        assert stage.run(control.timer(run, again_ms=1)) is None
    assert stage.due() == {run.run_id: deadline(stage, run) for run in runs}


def test_a_brother_of_the_asking_run_is_not_held_up(stage: Stage) -> None:
    root = stage.root(timeout_ms=HOUR_MS)
    parent = stage.calling(root, "run_agent", "run_agent")
    asks, works = stage.child(parent, 0), stage.child(parent, 1)
    stage.run(stage.calling(asks, "refund").ask(REFUND))
    assert (stage.record(root).awaits_human, stage.record(works).awaits_human) == (True, False)
    stage.expire_deadline(works)
    assert stage.run(control.timer(works, again_ms=1)).state is SubagentState.INTERRUPTED


def test_nothing_ends_a_run_whose_deadline_stands_still_however_late_it_would_be(stage: Stage) -> None:
    root = stage.root(timeout_ms=HOUR_MS)
    attempt = stage.calling(root, "run_agent", "refund")
    child = stage.child(attempt)
    stage.run(stage.calling(child, "refund").ask(REFUND))
    stage.expire_deadline(root)
    stage.await_longer(root, ms=600_000)

    assert stage.run(control.timer(root, again_ms=1, grace_ms=0)) is None
    suspended = stage.run(attempt.suspend_on([("1:0", f"child:{child.run_id}"), ("1:1", REFUND)]))
    assert suspended == Suspended(2)
    assert approve(stage, root, "1:1").refused is None
    stage.await_longer(root, ms=600_000)
    claimed = stage.run(stage.claim_call(root))
    assert isinstance(claimed, Claimed)
    assert claimed.record.awaits_human
    attempt = Attempt(stage, root, claimed)
    assert stage.run(attempt.begin(1)) == Begun()
    stage.run(attempt.tool(0))
    stage.run(attempt.tool(1))
    assert isinstance(stage.run(attempt.boundary(results=[0, 1], pin=None)), Passed)
    stage.run(attempt.model(tools=[]))
    stage.steer(root)
    assert stage.run(attempt.finish()) == Overtaken()
    assert isinstance(stage.run(attempt.hand_off(results=())), HandedOff)


def test_its_time_goes_on_once_the_human_has_decided(stage: Stage) -> None:
    root = stage.root(timeout_ms=HOUR_MS)
    attempt = stage.calling(root, "refund")
    stage.run(attempt.ask(REFUND))
    stage.expire_deadline(root)
    assert approve(stage, root).refused is None
    # It was a second late before it asked: a wait does not mend that.
    assert stage.run(stage.claim_call(root)) == Ended(SubagentState.INTERRUPTED, None)


def test_several_requests_of_a_run_count_once_and_the_last_decision_lets_time_go_on(stage: Stage) -> None:
    root = stage.root(timeout_ms=HOUR_MS)
    attempt, (child,) = stage.waiting(root)
    del attempt
    asker = stage.calling(child, "refund", "where are you")
    stage.run(asker.ask(REFUND, WHERE))
    answer(stage, child, "1:1")
    assert stage.server.hget(root.record, "hw") == "1"
    assert stage.record(child).awaits_human
    approve(stage, child)
    assert not stage.record(root).awaits_human
    # It is asked about a call that comes later in the same turn.
    asker = stage.claim(child)
    assert stage.run(asker.begin()) == Begun()
    stage.run(asker.tool(0))
    stage.run(asker.suspend_on([("1:2", WHERE)]))
    assert stage.record(root).awaits_human


def test_a_repeated_suspend_or_decision_counts_nothing_twice(stage: Stage) -> None:
    attempts, runs = family(stage)
    call = attempts[-1].ask(REFUND)
    for _ in range(2):
        assert stage.run(call) == Suspended(1)
    assert [stage.server.hget(run.record, "hw") for run in runs] == ["1"] * 3
    stage.await_longer(*runs, ms=600_000)
    first = approve(stage, runs[-1])
    moved = [deadline(stage, run) for run in runs]
    assert approve(stage, runs[-1]) == first
    assert [deadline(stage, run) for run in runs] == moved


def test_a_run_that_ends_while_one_below_it_asks_holds_up_nobody_above_it_any_more(stage: Stage) -> None:
    root = stage.root(timeout_ms=HOUR_MS)
    _, (child,) = stage.waiting(root)
    middle = stage.calling(child, "tool")
    left_behind = stage.child(middle, slot=None, abandon=True)
    stage.run(stage.calling(left_behind, "refund", process="p2").ask(REFUND))
    before = deadline(stage, root)
    stage.await_longer(root, ms=600_000)
    call = middle.finish()
    first = stage.run(call)
    assert first.wakeup.run_id == root.run_id
    moved = deadline(stage, root)
    assert 600_000 <= moved - before < 660_000
    assert stage.record(left_behind).awaits_human, "whoever launched it, a human may still decide"

    assert stage.run(call) == first
    assert approve(stage, left_behind).refused is None
    assert (deadline(stage, root), stage.record(root).awaits_human) == (moved, False)
    # Once the record of the run between is gone, nothing leads to the root any more.
    asker = stage.claim(left_behind)
    stage.run(asker.begin())
    stage.run(asker.tool(0))
    stage.forget(child)
    stage.run(asker.suspend_on([("1:1", WHERE)]))
    assert not stage.record(root).awaits_human


def test_a_cancelled_subtree_awaits_nobody(stage: Stage) -> None:
    root = stage.root(timeout_ms=HOUR_MS)
    parent = stage.calling(root, "run_agent", "run_agent")
    cancelled, asks = stage.child(parent, 0), stage.child(parent, 1)
    below = [stage.waiting(cancelled)[1][0], asks]
    for run in below:
        stage.run(stage.calling(run, "refund").ask(REFUND))
    assert stage.server.hget(root.record, "hw") == "2"
    stage.await_longer(root, ms=600_000)
    stage.cancel(cancelled)
    assert stage.server.hget(root.record, "hw") == "2", "until the sweep has ended what is suspended"
    stage.sweep(cancelled)
    assert stage.server.hget(root.record, "hw") == "1"
    before = deadline(stage, root)
    stage.sweep(cancelled)
    assert (stage.server.hget(root.record, "hw"), deadline(stage, root)) == ("1", before)
    approve(stage, asks)
    assert deadline(stage, root) - before >= 600_000


def test_a_request_that_runs_out_of_time_lets_time_go_on(stage: Stage) -> None:
    root = stage.root(timeout_ms=HOUR_MS)
    _, (child,) = stage.waiting(root)
    stage.run(stage.calling(child, "refund").ask(REFUND))
    before = deadline(stage, child)
    stage.await_longer(root, child, ms=600_000)
    expire_request(stage, child)
    assert isinstance(stage.run(control.timer(child, again_ms=1)), Queued)
    for run in (root, child):
        assert deadline(stage, run) - before >= 600_000
    assert stage.due()[child.run_id] == deadline(stage, child)


def test_the_timer_of_a_deadline_that_stands_still_waits_for_the_request_alone(stage: Stage) -> None:
    root = stage.root(timeout_ms=1_000)
    attempt = stage.calling(root, "refund")
    stage.run(attempt.ask(REFUND, asking_ms=HOUR_MS))
    stage.expire_deadline(root)
    asked_until = stage.server.time()[0] * 1000 + HOUR_MS
    assert stage.run(control.timer(root, again_ms=1)) is None
    assert abs(stage.due()[root.run_id] - asked_until) < 60_000


def test_the_timer_of_a_run_above_is_set_anew_once_time_goes_on(stage: Stage) -> None:
    root = stage.root(timeout_ms=HOUR_MS)
    _, (child,) = stage.waiting(root)
    stage.run(stage.calling(child, "refund").ask(REFUND))
    stage.expire_deadline(root)
    assert stage.run(control.timer(root, again_ms=1)) is None
    assert root.run_id not in stage.due(), "nothing is to be done until then"
    approve(stage, child)
    assert stage.due()[root.run_id] == deadline(stage, root)
    assert stage.run(control.timer(root, again_ms=1)).state is SubagentState.INTERRUPTED


def test_a_run_that_asks_more_while_it_still_asks_counts_once(stage: Stage) -> None:
    root = stage.root(timeout_ms=HOUR_MS)
    _, (child,) = stage.waiting(root)
    stage.run(stage.calling(child, "refund", "where", "where").ask(REFUND, WHERE))
    approve(stage, child)
    asker = stage.claim(child)
    asker_done = [asker.begin(), asker.tool(0), asker.suspend_on([("1:1", WHERE), ("1:2", WHERE)])]
    assert [stage.run(call) for call in asker_done][-1] == Suspended(2)
    for slot, awaited in (("1:1", True), ("1:2", False)):
        assert stage.record(root).awaits_human
        stage.run(asking.answer(child, above=root.run_id, slot=slot, decision_id=slot, value="Ulm"))
        assert stage.record(root).awaits_human == awaited


def test_a_child_gets_at_most_what_is_left_of_a_deadline_that_stands_still(stage: Stage) -> None:
    root = stage.root(timeout_ms=HOUR_MS)
    parent = stage.calling(root, *["run_agent"] * 3)
    stage.run(stage.calling(stage.child(parent), "refund").ask(REFUND))
    stage.await_longer(root, ms=600_000)
    late, early = stage.child(parent, 1), stage.child(parent, 2, timeout_ms=1_000)
    launched_ms = stage.record(late).created_ms
    left_ms = stage.record(root).time_left_ms(launched_ms)
    assert deadline(stage, late) == launched_ms + left_ms
    assert HOUR_MS <= left_ms <= HOUR_MS + 600_000, "as much as when the human was first awaited"
    assert deadline(stage, early) == stage.record(early).created_ms + 1_000


def test_a_parent_without_a_deadline_gives_its_children_none_while_a_human_is_awaited(stage: Stage) -> None:
    parent = stage.calling(stage.root(), "run_agent", "run_agent")
    stage.run(stage.calling(stage.child(parent), "refund").ask(REFUND))
    stage.await_longer(parent.run, ms=600_000)
    assert stage.record(stage.child(parent, 1)).deadline_ms is None
    approve(stage, stage.key(stage.live(parent.run)[1]))
    assert stage.record(parent.run).deadline_ms is None


def test_a_clock_that_was_put_back_brings_no_deadline_nearer(stage: Stage) -> None:
    root = stage.root(timeout_ms=HOUR_MS)
    stage.run(stage.calling(root, "refund").ask(REFUND))
    before = deadline(stage, root)
    stage.await_longer(root, ms=-600_000)
    approve(stage, root)
    assert deadline(stage, root) == before


def test_a_launch_below_a_run_whose_time_was_over_before_is_refused_again(stage: Stage) -> None:
    root = stage.root(timeout_ms=HOUR_MS)
    parent = stage.calling(root, "run_agent", "run_agent")
    asks = stage.child(parent)
    stage.run(stage.calling(asks, "refund").ask(REFUND))
    stage.expire_deadline(root)
    second = stage.new_child(parent, 1)
    assert isinstance(stage.launch(second, parent=parent.as_parent(1)), Launched), "not while it stands still"
    approve(stage, asks)
    third = stage.new_run(slot="1:2", slot_tool="run_agent")
    assert stage.launch(third, parent=parent.as_parent(1)) == ParentRefused("DEADLINE")


@pytest.mark.parametrize("read", [reading.read_status, reading.read_result])
def test_a_reader_is_told_the_servers_clock(stage: Stage, read: Callable[[RunKey], Any]) -> None:
    root = stage.root(timeout_ms=HOUR_MS)
    found = stage.run(read(root))
    view = found if isinstance(found, reading.RunView) else found.view
    assert abs(view.now_ms - stage.server.time()[0] * 1000) < 60_000
    assert view.record.time_left_ms(view.now_ms) <= HOUR_MS
