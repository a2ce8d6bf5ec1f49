"""Lost replies: a call that is sent again changes nothing, and gets the answer that the first one got."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.integration.store.attempt import Attempt
from tests.integration.store.stage import Stage

from retinue.contract import ErrorClassification, SubagentState
from retinue.store.operations import control, running
from retinue.store.replies import (
    Claimed,
    Ended,
    Fence,
    HandedOff,
    NotClaimed,
    Queued,
    Recorded,
    Stale,
    Suspended,
)

Prepare = Callable[[Stage], Any]


def _launch_child(stage: Stage) -> Any:
    parent = stage.calling(stage.root(grant_json="{}"))
    return stage.launch_call(stage.new_child(parent, timeout_ms=60_000), parent=parent.as_parent(1))


def _claim_of_a_cancelled_child(stage: Stage) -> Any:
    _, (child,) = stage.waiting(stage.root())
    stage.cancel(child)
    return stage.claim_call(child)


def _boundary_with_results_and_steers(stage: Stage) -> Any:
    attempt = stage.calling(stage.root(), "search", "search")
    stage.run(attempt.tool(0))
    stage.run(attempt.tool(1))
    stage.steer(attempt.run, "a")
    return attempt.boundary(results=[0, 1])


def _record_model(stage: Stage) -> Any:
    attempt = stage.claim(stage.root())
    stage.steer(attempt.run, "a")
    attempt.go()
    return attempt.model(tools=["search"], steers=["a"], partial="p")


def _suspend(stage: Stage) -> Any:
    parent = stage.calling(stage.root(), "run_agent", "run_agent")
    return parent.suspend([stage.child(parent, 0), stage.child(parent, 1)])


def _suspend_that_is_ready(stage: Stage) -> Any:
    parent = stage.calling(stage.root())
    child = stage.child(parent)
    stage.end(child)
    return parent.suspend([child])


def _finish_of_the_last_child(stage: Stage) -> Any:
    _, (child,) = stage.waiting(stage.root(correlation="c" * 40), correlation="e" * 40)
    attempt = stage.asking(child)
    stage.steer(child)
    return attempt.finish(SubagentState.FAILED, ErrorClassification.TOOL_ERROR)


def _finish_with_live_children(stage: Stage) -> Any:
    parent = stage.calling(stage.root(timeout_ms=60_000))
    stage.child(parent)
    return parent.finish()


def _finish_overtaken(stage: Stage) -> Any:
    attempt = stage.asking(stage.root())
    stage.steer(attempt.run)
    return attempt.finish()


def _hand_back(stage: Stage) -> Any:
    return stage.asking(stage.root()).hand_back()


def _boundary_stopped(stage: Stage) -> Any:
    attempt = stage.claim(stage.root())
    stage.cancel(attempt.run)
    return attempt.boundary()


SAME_ANSWER: dict[str, Prepare] = {
    "claim": lambda stage: stage.claim_call(stage.root(timeout_ms=60_000)),
    "claim of a cancelled child": _claim_of_a_cancelled_child,
    "boundary, the first": lambda stage: stage.claim(stage.root()).boundary(),
    "boundary with results and steers": _boundary_with_results_and_steers,
    "boundary, stopped": _boundary_stopped,
    "record_model": _record_model,
    "record_tool_result": lambda stage: stage.calling(stage.root(), "search").tool(0),
    "note of a retry": lambda stage: stage.asking(stage.root()).retry(),
    "note of a drain": lambda stage: stage.asking(stage.root()).draining(),
    "note of progress": lambda stage: stage.calling(stage.root(), "search").progress(),
    "suspend": _suspend,
    "suspend that is ready": _suspend_that_is_ready,
    "finish of the last child": _finish_of_the_last_child,
    "finish with live children": _finish_with_live_children,
    "finish, overtaken by a steer": _finish_overtaken,
    "hand_back": _hand_back,
    "handoff": lambda stage: stage.calling(stage.root(), "handoff_conversation").hand_off(),
    "cancel": lambda stage: control.cancel(stage.waiting(stage.root())[0].run, reason="enough"),
}


@pytest.mark.parametrize("case", SAME_ANSWER)
def test_a_repeat_changes_nothing_and_answers_as_the_first(stage: Stage, case: str) -> None:
    call = SAME_ANSWER[case](stage)
    first, after = stage.run(call), stage.dump()
    again = stage.run(call)
    assert stage.dump() == after
    assert _timeless(again) == _timeless(first)


def test_a_repeated_launch_says_that_it_stood_already(stage: Stage) -> None:
    for call in (
        stage.launch_call(stage.new_run(correlation="c" * 40), stage.new_run()),
        _launch_child(stage),
    ):
        first, after = stage.run(call), stage.dump()
        again = stage.run(call)
        assert stage.dump() == after
        assert [run.run_id for run in again.runs] == [run.run_id for run in first.runs]
        assert all(run.repeated for run in again.runs)
        assert not any(run.repeated for run in first.runs)


def test_a_repeated_steer_says_how_it_stands(stage: Stage) -> None:
    call = control.steer(stage.root(), steer_id="s1", message="m", max_steers=1)
    assert stage.run(call).outcome == "QUEUED"
    after = stage.dump()
    assert stage.run(call) == control.SteerReply("KNOWN", "q")
    assert stage.dump() == after


def test_a_repeated_sweep_finds_nothing_left(stage: Stage) -> None:
    root = stage.root()
    stage.waiting(root, 2)
    stage.cancel(root)
    stage.sweep(root)
    after = stage.dump()
    (chunk,) = stage.sweep(root)
    assert (chunk.ended, chunk.wakeups) == (0, ())
    assert stage.dump() == after


@pytest.mark.parametrize("dead", [True, False])
def test_a_repeated_take_over_finds_another_state(stage: Stage, dead: bool) -> None:
    run = stage.calling(stage.root(), "search").run
    call = running.take_over(run, process=stage.process("p1"), dead=dead, losses_before_end=3)
    assert isinstance(stage.run(call), Queued)
    after = stage.dump()
    assert stage.run(call) is None, "its wake-up is left to the shortfall rule"
    assert stage.dump() == after


def test_a_repeated_timer_that_ended_a_run_does_nothing(stage: Stage) -> None:
    root = stage.root(timeout_ms=60_000)
    stage.expire_deadline(root)
    call = control.timer(root, again_ms=1000)
    assert isinstance(stage.run(call), Ended)
    after = stage.dump()
    assert stage.run(call) is None
    assert stage.dump() == after


def test_a_repeated_timer_that_asked_for_a_sweep_only_looks_again(stage: Stage) -> None:
    root = stage.root()
    stage.cancel(root)
    call = control.timer(root, again_ms=60_000)
    stage.run(call)
    after = stage.dump()
    assert stage.run(call) == control.NeedsSweep()
    due = f"retinue:{{p{stage.partition:02d}}}:due"
    # When it looks again counts from the call, so that moment is the one thing that moves.
    assert {name: stored for name, stored in stage.dump().items() if name != due} == {
        name: stored for name, stored in after.items() if name != due
    }
    assert stage.due().keys() == {root.run_id}


def test_a_repeated_resend_waits_for_its_back_off(stage: Stage) -> None:
    call = control.rewake(stage.root(), first_ms=60_000, longest_ms=60_000)
    assert stage.run(call) is not None
    after = stage.dump()
    assert stage.run(call) is None
    assert stage.dump() == after


def _then_children_ended(stage: Stage, run: Any) -> None:
    for child in stage.live(run)[1:]:
        stage.end(stage.key(child))


def _then_claimed(stage: Stage, run: Any) -> None:
    _then_children_ended(stage, run)
    stage.claim(run, process="p9")


def _then_a_boundary_further(stage: Stage, run: Any) -> None:
    _then_children_ended(stage, run)
    attempt = stage.claim(run, process="p9")
    indexes = [int(slot.split(":")[1]) for slot in attempt.claimed.journal]
    attempt.go(results=sorted(indexes))
    stage.run(attempt.model(tools=["search"]))


def _then_ended(stage: Stage, run: Any) -> None:
    _then_a_boundary_further(stage, run)
    token = stage.server.hget(run.record, "tok")
    epoch = stage.record(run).epoch
    claimed = Attempt(stage, run, None, Fence(epoch, token))  # pyright: ignore[reportArgumentType]
    stage.run(claimed.finish(SubagentState.FAILED, ErrorClassification.TOOL_ERROR))


def _then_swept(stage: Stage, run: Any) -> None:
    stage.cancel(run)
    stage.sweep(run)


MOVES = [
    _then_children_ended,
    _then_claimed,
    _then_a_boundary_further,
    _then_ended,
    _then_swept,
]
RELEASING: dict[str, tuple[Prepare, type]] = {
    "suspend": (_suspend, Suspended),
    "hand_back": (_hand_back, Queued),
}


@pytest.mark.parametrize("move", MOVES, ids=[move.__name__[6:] for move in MOVES])
@pytest.mark.parametrize("case", RELEASING)
def test_a_late_repeat_of_a_releasing_call_never_touches_who_came_after(
    stage: Stage, case: str, move: Callable[[Stage, Any], None]
) -> None:
    prepare, answer = RELEASING[case]
    call = prepare(stage)
    run = stage.key(stage.run(call) and call.argv[3])
    move(stage, run)
    after = stage.dump()
    # Stale means "not mine any more": another attempt has held the run meanwhile.
    held_since = move in (_then_claimed, _then_a_boundary_further, _then_ended)
    assert isinstance(stage.run(call), Stale if held_since else answer)
    assert stage.dump() == after


@pytest.mark.parametrize(
    "case", [name for name in SAME_ANSWER if name not in {"cancel", "claim of a cancelled child"}]
)
def test_a_late_repeat_after_the_run_was_ended_changes_nothing(stage: Stage, case: str) -> None:
    call = SAME_ANSWER[case](stage)
    stage.run(call)
    run = stage.key(call.argv[3])
    stage.cancel(run)
    process = stage.server.hget(run.record, "own")
    if process:
        stage.run(running.take_over(run, process=process, dead=False, losses_before_end=3))
    stage.sweep(run)
    after = stage.dump()
    assert isinstance(stage.run(call), Stale | Suspended | Queued | HandedOff | Ended | NotClaimed)
    assert stage.dump() == after


def test_late_repeats_of_a_past_iteration_change_nothing(stage: Stage) -> None:
    """The whole of iteration 1 is sent again, in the wrong order, while iteration 2 is under way."""
    attempt = stage.claim(stage.root())
    stage.run(boundary := attempt.boundary())
    stage.run(model := attempt.model(tools=["search"], partial="p"))
    stage.run(tool := attempt.tool(0))
    attempt.go(results=[0], pin=None)
    for _ in range(2):  # while the model is asked, and once it has answered
        after = stage.dump()
        assert stage.run(tool) == Recorded()
        for call in (model, boundary):
            assert stage.run(call) == Stale()
        assert stage.dump() == after
        if stage.record(attempt.run).recorded_iteration == 1:
            stage.run(attempt.model(tools=["search"]))


def _timeless(answer: Any) -> Any:
    """Without the server's clock, which a repeat may tell anew."""
    if isinstance(answer, Claimed):
        return (
            answer.fence,
            answer.record,
            answer.request_json,
            answer.spec_json,
            answer.thread,
            answer.journal,
        )
    return answer
