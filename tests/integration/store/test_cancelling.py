"""A cancel reaches the whole subtree; a parent's end reaches the children that follow it."""

from __future__ import annotations

import pytest
from tests.integration.store.stage import Stage

from retinue.contract import SubagentState
from retinue.store import keys
from retinue.store.call import RunKey
from retinue.store.operations import control
from retinue.store.operations.control import SWEEP_CHUNK, CancelReply, NeedsSweep
from retinue.store.operations.launching import Launched, ParentRefused
from retinue.store.replies import Ended, Stopped


def _states(stage: Stage, *runs: RunKey) -> list[SubagentState]:
    return [stage.state(run) for run in runs]


def test_a_cancel_is_a_mark_that_every_reader_below_sees(stage: Stage) -> None:
    root = stage.root()
    _, (child,) = stage.waiting(root)
    other = stage.root()
    assert stage.cancel(root) == CancelReply("ACCEPTED", None)
    assert _states(stage, root, child, other) == ["CANCEL_REQUESTED", "CANCEL_REQUESTED", "PENDING"]
    assert stage.record(child).state is SubagentState.PENDING, "never stored"
    assert stage.due() == {root.run_id: 0}
    assert stage.story(root)[-1] == ("cancel.requested", {"kind": "cancel", "reason": "enough"})


def test_a_cancel_of_a_child_leaves_its_parent_and_siblings_alone(stage: Stage) -> None:
    root = stage.root()
    _, children = stage.waiting(root, 11)
    stage.cancel(children[1])
    stage.sweep(children[1])
    states = _states(stage, root, *children)
    assert states == ["RUNNING", "PENDING", "CANCELLED", *["PENDING"] * 9], "0/1/ is not a prefix of 0/10/"


def test_an_ended_or_unknown_run_is_not_cancelled(stage: Stage) -> None:
    root = stage.root()
    stage.end(root)
    before = stage.dump()
    assert stage.cancel(root) == CancelReply("TERMINAL", SubagentState.SUCCEEDED)
    assert stage.cancel(stage.key(stage.new_run().run_id)) == CancelReply("UNKNOWN", None)
    assert stage.dump() == before


def test_the_sweep_ends_what_is_queued_or_waiting_and_hints_what_runs(stage: Stage) -> None:
    root = stage.root()
    _, (queued, waiting, held) = stage.waiting(root, 3)
    _, (below,) = stage.waiting(waiting)
    attempt = stage.asking(held, process="p7")
    stage.cancel(root)
    with stage.server.pubsub(ignore_subscribe_messages=True) as channel:
        channel.subscribe(keys.process_channel(stage.process("p7")))
        channel.get_message(timeout=30)
        (chunk,) = stage.sweep(root)
        message = channel.get_message(timeout=30)
    assert message is not None
    assert message["data"] == f"{held.run_id} cancel"
    assert (chunk.cursor, chunk.ended, chunk.running, chunk.wakeups) == ("", 4, 1, ())
    assert _states(stage, root, queued, waiting, below) == ["CANCELLED"] * 4
    assert stage.run(attempt.boundary(pin=None)) == Stopped("CANCEL")
    assert stage.run(attempt.finish(SubagentState.CANCELLED)) == Ended(SubagentState.CANCELLED, None)
    assert stage.tree(root)["live"] == "0"


def test_parents_are_swept_first_so_that_none_is_woken_in_vain(stage: Stage) -> None:
    root = stage.root()
    _, children = stage.waiting(root, 3)
    for child in children:
        stage.waiting(child, 2)
    stage.cancel(root)
    stage.sweep(root)
    story = stage.events(root)
    ended = [event.run_id for event in story if event.type == "run.finished"]
    assert ended[0] == root.run_id
    assert len(ended) == 10
    assert "run.resumed" not in [event.type for event in story]


def _with_many_children(stage: Stage) -> tuple[RunKey, list[RunKey]]:
    """A waiting run with more children than one chunk of a sweep takes."""
    count = SWEEP_CHUNK + 10
    root = stage.root(max_live_children=100)
    parent = stage.calling(root, *["run_agent"] * count)
    batch = [stage.new_child(parent, index) for index in range(count)]
    assert isinstance(stage.launch(*batch, parent=parent.as_parent(1)), Launched)
    children = [stage.key(new.run_id) for new in batch]
    stage.run(parent.suspend(children))
    return root, children


def test_a_sweep_of_many_goes_in_chunks(stage: Stage) -> None:
    root, children = _with_many_children(stage)
    stage.cancel(root)
    chunks = stage.sweep(root)
    assert [chunk.ended for chunk in chunks] == [SWEEP_CHUNK, len(children) + 1 - SWEEP_CHUNK]
    assert stage.live(root) == []
    assert stage.queued() == []


def test_three_thousand_descendants_end_in_chunks_of_at_most_two_hundred(stage: Stage) -> None:
    root = stage.root(max_live_children=30, max_tree_children=3_000)
    parent = stage.calling(root, *["run_agent"] * 30)
    middles = [stage.child(parent, index, max_live_children=100) for index in range(30)]
    stage.run(parent.suspend(middles))
    for middle in middles:
        attempt = stage.calling(middle, *["run_agent"] * 99)
        batch = [stage.new_child(attempt, index) for index in range(99)]
        assert isinstance(stage.launch(*batch, parent=attempt.as_parent(1)), Launched)
        stage.run(attempt.suspend([stage.key(new.run_id) for new in batch]))
    stage.cancel(root)
    ended = [chunk.ended for chunk in stage.sweep(root)]
    assert sum(ended) == 3_001
    assert max(ended) <= 200
    assert stage.live(root) == []
    assert stage.queued() == []


@pytest.mark.parametrize("which", [0, -1])
def test_a_sweep_walks_its_subtree_alone(stage: Stage, which: int) -> None:
    root, children = _with_many_children(stage)
    stage.cancel(children[which])
    (chunk,) = stage.sweep(children[which])
    assert (chunk.ended, chunk.cursor) == (1, "")
    assert len(stage.live(root)) == len(children)


def test_a_swept_child_wakes_a_parent_outside_the_mark(stage: Stage) -> None:
    root = stage.root()
    _, (child, sibling) = stage.waiting(root, 2)
    stage.end(sibling)
    stage.cancel(child)
    (chunk,) = stage.sweep(child)
    assert [wakeup.run_id for wakeup in chunk.wakeups] == [root.run_id]
    assert stage.claim(root).claimed.journal["1:0"].startswith('"[CANCELLED]')


def test_a_child_launched_before_the_mark_is_swept(stage: Stage) -> None:
    root = stage.root()
    parent = stage.calling(root)
    child = stage.child(parent)
    stage.cancel(root)
    stage.sweep(root)
    assert _states(stage, root, child) == ["CANCEL_REQUESTED", "CANCELLED"]


def test_a_child_launched_after_the_mark_is_refused(stage: Stage) -> None:
    root = stage.root()
    parent = stage.calling(root)
    new = stage.new_child(parent)
    stage.cancel(root)
    assert stage.launch(new, parent=parent.as_parent(1)) == ParentRefused("CANCELLED")
    stage.sweep(root)
    assert stage.live(root) == [root.run_id]


def test_a_run_that_finishes_before_it_notices_has_succeeded(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.asking(root)
    stage.run(attempt.model())
    stage.cancel(root)
    assert stage.run(attempt.finish()) == Ended(SubagentState.SUCCEEDED, None)
    assert stage.due() == {}


def test_a_response_that_was_paid_for_is_kept_under_a_cancel(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.asking(root)
    stage.cancel(root)
    stage.run(attempt.model(tools=["search"], partial="so far"))
    stage.run(attempt.tool(0))
    assert stage.run(attempt.boundary(results=[0], pin=None)) == Stopped("CANCEL")
    assert stage.result(root).partial == "so far"


def test_children_that_follow_their_parents_end_are_swept_by_its_timer(stage: Stage) -> None:
    root = stage.root()
    parent = stage.calling(root, "run_agent", "run_agent")
    queued, held = stage.child(parent, 0), stage.child(parent, 1)
    attempt = stage.asking(held, process="p7")
    stage.run(parent.finish())
    assert stage.due() == {root.run_id: 0}, "it is terminal, and still has something to do"
    assert _states(stage, root, queued, held) == ["SUCCEEDED", "CANCEL_REQUESTED", "CANCEL_REQUESTED"]
    assert stage.run(control.timer(root, again_ms=1000)) == NeedsSweep()
    (chunk,) = stage.sweep(root)
    assert (chunk.ended, chunk.running) == (1, 1)
    assert stage.run(attempt.boundary(pin=None)) == Stopped("CANCEL")
    stage.run(attempt.finish(SubagentState.CANCELLED))
    assert stage.run(control.timer(root, again_ms=1000)) is None
    assert stage.due() == {}


def test_an_abandoned_child_and_its_own_children_outlive_the_parent(stage: Stage) -> None:
    root = stage.root()
    parent = stage.calling(root, "run_agent", "run_agent")
    abandoned, follower = stage.child(parent, 0, abandon=True), stage.child(parent, 1)
    holder, (grandchild,) = stage.waiting(abandoned)
    stage.run(parent.finish())
    stage.sweep(root)
    assert _states(stage, follower, abandoned, grandchild) == ["CANCELLED", "RUNNING", "PENDING"]
    stage.end(grandchild)
    resumed = stage.claim(abandoned)
    assert resumed.go(results=[0], pin=None).iteration == 2
    stage.run(resumed.model())
    assert stage.run(resumed.finish()).state is SubagentState.SUCCEEDED
    assert holder.run == abandoned


def test_the_children_of_an_abandoned_child_follow_it(stage: Stage) -> None:
    root = stage.root()
    parent = stage.calling(root)
    abandoned = stage.child(parent, abandon=True)
    middle = stage.calling(abandoned)
    grandchild = stage.child(middle)
    stage.run(parent.finish())
    stage.run(middle.finish())
    assert stage.state(grandchild) is SubagentState.CANCEL_REQUESTED
    stage.sweep(abandoned)
    assert stage.state(grandchild) is SubagentState.CANCELLED


def test_a_cancel_reaches_abandoned_children_too(stage: Stage) -> None:
    root = stage.root()
    _, (child,) = stage.waiting(root, abandon=True)
    stage.cancel(root)
    stage.sweep(root)
    assert stage.state(child) is SubagentState.CANCELLED


def test_a_swept_parents_running_child_is_followed_up_by_the_parents_timer(stage: Stage) -> None:
    root = stage.root()
    _, (child,) = stage.waiting(root)
    attempt = stage.asking(child)
    stage.cancel(root)
    stage.sweep(root)
    assert stage.state(root) is SubagentState.CANCELLED
    assert stage.due() == {root.run_id: 0}
    assert stage.run(control.timer(root, again_ms=1000)) == NeedsSweep()
    stage.run(attempt.hand_back())
    stage.sweep(root)
    assert stage.state(child) is SubagentState.CANCELLED
    assert stage.run(control.timer(root, again_ms=1000)) is None


@pytest.mark.parametrize("reason", ['with "quotes"', "Größe\n", ""])
def test_any_reason_stands_in_the_log(stage: Stage, reason: str) -> None:
    root = stage.root()
    stage.run(control.cancel(root, reason=reason))
    assert stage.story(root)[-1][1]["reason"] == reason
