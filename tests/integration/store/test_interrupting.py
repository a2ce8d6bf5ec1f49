"""An interrupt stops one run at its boundary and abandons its children; what no worker holds ends at once."""

from __future__ import annotations

import pytest
from tests.integration.store.stage import Stage

from retinue.contract import ErrorClassification, SubagentState
from retinue.store import keys
from retinue.store.operations import control
from retinue.store.operations.control import InterruptReply, NeedsSweep
from retinue.store.operations.launching import ParentRefused
from retinue.store.replies import Ended, Stopped

ENDED = InterruptReply("ENDED", SubagentState.INTERRUPTED)


def test_a_queued_run_ends_at_once(stage: Stage) -> None:
    root = stage.root()
    assert stage.interrupt(root) == ENDED
    assert stage.record(root).classification is ErrorClassification.INTERRUPT_REQUESTED
    assert stage.queued() == []
    assert stage.story(root)[-2:] == [
        ("cancel.requested", {"kind": "interrupt", "reason": "enough"}),
        ("run.finished", {"state": "INTERRUPTED", "classification": "INTERRUPT_REQUESTED"}),
    ]


def test_a_waiting_run_ends_at_once_with_its_last_text_and_its_children_go_on(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.asking(root)
    stage.run(attempt.model(tools=["run_agent"], partial='half "way"'))
    child = stage.child(attempt)
    stage.run(attempt.suspend([child]))
    assert stage.interrupt(root) == ENDED
    assert stage.result(root).partial == 'half "way"'
    stage.sweep(root)
    assert stage.state(child) is SubagentState.PENDING
    assert stage.end(child) == Ended(SubagentState.SUCCEEDED, None)
    assert stage.run(control.timer(root, again_ms=1000)) is None


def test_the_parent_of_an_interrupted_run_is_told_how_far_it_came(stage: Stage) -> None:
    root = stage.root()
    _, (middle,) = stage.waiting(root)
    attempt = stage.asking(middle)
    stage.run(attempt.model(tools=["run_agent"], partial='half "way"'))
    stage.run(attempt.suspend([stage.child(attempt)]))
    reply = stage.interrupt(middle)
    assert [wakeup.run_id for wakeup in reply.wakeups] == [root.run_id]
    answer = stage.claim(root).claimed.journal["1:0"]
    assert answer.startswith('"[INTERRUPT_REQUESTED] This agent was interrupted')
    assert answer.endswith('Its last text was:\\nhalf \\"way\\""')


def test_a_repeat_of_the_very_call_is_answered_like_the_first(stage: Stage) -> None:
    root = stage.root()
    _, (child,) = stage.waiting(root)
    call = control.interrupt(child, reason="enough")
    first, before = stage.run(call), stage.dump()
    assert stage.run(call) == first
    assert stage.dump() == before
    again = stage.interrupt(child)
    assert again == InterruptReply("TERMINAL", SubagentState.INTERRUPTED)


def test_a_held_run_stops_at_its_boundary_and_its_owner_is_told(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.calling(root, "search", process="p7")
    with stage.server.pubsub(ignore_subscribe_messages=True) as channel:
        channel.subscribe(keys.process_channel(stage.process("p7")))
        channel.get_message(timeout=5)
        assert stage.interrupt(root) == InterruptReply("ACCEPTED", SubagentState.RUNNING)
        message = channel.get_message(timeout=5)
        assert message is not None
        assert message["data"] == f"{root.run_id} interrupt"
        assert stage.run(control.timer(root, again_ms=1000)) == NeedsSweep()
        stage.sweep(root)
        message = channel.get_message(timeout=5)
        assert message is not None, "it is told again, should it not have heard"
    view = stage.status(root)
    assert view is not None
    assert (view.state, view.is_interrupted) == (SubagentState.RUNNING, True)
    stage.run(attempt.tool(0))
    before = stage.dump()
    assert stage.interrupt(root).outcome == "ACCEPTED"
    assert stage.dump() == before, "one mark, one event"
    assert stage.run(attempt.boundary(results=[0], pin=None)) == Stopped("INTERRUPT")
    assert stage.steer(root).outcome == "CANCELLED"
    stage.run(attempt.finish(SubagentState.INTERRUPTED, ErrorClassification.INTERRUPT_REQUESTED))
    assert stage.due() == {}


def test_one_whose_worker_gives_it_back_is_ended_by_the_sweep(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.calling(root)
    child = stage.child(attempt)
    stage.interrupt(root)
    stage.run(attempt.hand_back())
    (chunk,) = stage.sweep(root)
    assert (chunk.ended, chunk.running) == (1, 0)
    assert stage.state(root) is SubagentState.INTERRUPTED
    assert stage.state(child) is SubagentState.PENDING


def test_or_by_whoever_claims_it(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.calling(root)
    stage.interrupt(root)
    stage.run(attempt.hand_back())
    assert stage.run(stage.claim_call(root)) == Ended(SubagentState.INTERRUPTED, None)


def test_it_launches_no_more_children_and_waits_for_none(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.calling(root, "run_agent", "run_agent")
    child, late = stage.child(attempt), stage.new_child(attempt, 1)
    stage.interrupt(root)
    assert stage.launch(late, parent=attempt.as_parent(1)) == ParentRefused("INTERRUPTED")
    assert stage.run(attempt.suspend([child])) == Stopped("INTERRUPT")


def test_abandoned_children_follow_the_end_of_nobody_above_either(stage: Stage) -> None:
    root = stage.root()
    parent, (middle,) = stage.waiting(root)
    inner, (child,) = stage.waiting(middle)
    _, (grandchild,) = stage.waiting(child)
    stage.interrupt(middle)
    again = stage.claim(root)
    stage.run(again.finish(SubagentState.FAILED, ErrorClassification.AGENT_ERROR))
    stage.sweep(root)
    assert [stage.state(run) for run in (child, grandchild)] == ["RUNNING", "PENDING"]
    assert (parent.run, inner.run) == (root, middle)


def test_but_their_own_children_follow_theirs(stage: Stage) -> None:
    root = stage.root()
    _, (child,) = stage.waiting(root)
    attempt = stage.calling(child)
    grandchild = stage.child(attempt)
    stage.interrupt(root)
    stage.run(attempt.finish())
    assert stage.state(grandchild) is SubagentState.CANCEL_REQUESTED


@pytest.mark.parametrize("ended", [False, True])
def test_a_cancel_reaches_them_all_the_same(stage: Stage, ended: bool) -> None:
    root = stage.root()
    _, (middle,) = stage.waiting(root)
    attempt = stage.calling(middle)
    child = stage.child(attempt)
    stage.interrupt(middle)
    if ended:
        stage.run(attempt.finish(SubagentState.INTERRUPTED, ErrorClassification.INTERRUPT_REQUESTED))
    stage.cancel(root if ended else middle)
    stage.sweep(root)
    assert stage.state(child) is SubagentState.CANCELLED


def test_a_cancel_is_more_than_an_interrupt_and_stands(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.calling(root)
    stage.cancel(root)
    before = stage.dump()
    assert stage.interrupt(root) == InterruptReply("ACCEPTED", SubagentState.CANCEL_REQUESTED)
    assert stage.dump() == before
    assert stage.run(attempt.boundary(pin=None)) == Stopped("CANCEL")


def test_an_object_at_work_cannot_be_interrupted_but_a_queued_one_can(stage: Stage) -> None:
    at_work, queued = stage.root(agent="antique"), stage.root(agent="antique")
    attempt = stage.claim(at_work)
    before = stage.dump()
    assert stage.interrupt(at_work) == InterruptReply("UNSUPPORTED", SubagentState.RUNNING)
    assert stage.dump() == before
    assert stage.interrupt(queued) == ENDED
    assert stage.run(attempt.finish()) == Ended(SubagentState.SUCCEEDED, None)


def test_an_ended_or_unknown_run_is_not_interrupted(stage: Stage) -> None:
    root = stage.root()
    stage.end(root)
    before = stage.dump()
    assert stage.interrupt(root) == InterruptReply("TERMINAL", SubagentState.SUCCEEDED)
    gone = stage.key(stage.new_run().run_id)
    assert stage.interrupt(gone) == InterruptReply("UNKNOWN", None)
    assert stage.dump() == before
