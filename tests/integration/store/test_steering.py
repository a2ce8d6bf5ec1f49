"""Steering: every accepted message ends delivered in an iteration, or missed, and never in between."""

from __future__ import annotations

import pytest
from tests.integration.store.stage import Stage

from retinue.contract import ErrorClassification, SubagentState
from retinue.store.operations import control
from retinue.store.operations.control import SteerReply
from retinue.store.replies import Ended, Overtaken, Pin, Stopped


def _dispositions(stage: Stage, attempt_or_run: object) -> list[str]:
    run = getattr(attempt_or_run, "run", attempt_or_run)
    return [steer.disposition for steer in stage.result(run).steers]


def test_steers_are_handed_out_in_order_and_delivered_with_the_response(stage: Stage) -> None:
    root = stage.root()
    for number in (1, 2):
        assert stage.steer(root, f"message {number}", f"s{number}") == SteerReply("QUEUED", "")
    attempt = stage.claim(root)
    assert attempt.go().steers == ["message 1", "message 2"]
    assert _dispositions(stage, root) == ["q", "q"], "handed out is not delivered yet"
    seen = len(stage.events(root))
    stage.run(attempt.model(steers=["message 1", "message 2"]))
    assert _dispositions(stage, root) == ["d1", "d1"]
    assert stage.story(root, seen)[:2] == [
        ("steer.delivered", {"iteration": 1, "steer": "s1"}),
        ("steer.delivered", {"iteration": 1, "steer": "s2"}),
    ]
    assert len(stage.thread(root)) == 4


def test_a_queued_steer_is_an_event(stage: Stage) -> None:
    root = stage.root()
    stage.steer(root, 'with "quotes"', "s1")
    assert stage.story(root)[-1] == ("steer.queued", {"steer": "s1"})
    assert stage.result(root).steers[0].message == 'with "quotes"'


def test_one_that_comes_after_the_boundary_waits_for_the_next(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.asking(root)
    stage.steer(root, "late")
    stage.run(attempt.model(tools=["search"]))
    assert _dispositions(stage, root) == ["q"]
    stage.run(attempt.tool(0))
    assert attempt.go(results=[0], pin=None).steers == ["late"]
    stage.run(attempt.model(steers=["late"]))
    assert _dispositions(stage, root) == ["d2"]


def test_one_handed_out_before_a_crash_is_handed_out_again(stage: Stage) -> None:
    root = stage.root()
    stage.steer(root, "first")
    lost = stage.asking(root)
    stage.run(lost.hand_back())
    stage.steer(root, "second")
    again = stage.claim(root)
    assert again.go(pin=None).steers == ["first", "second"]
    stage.run(again.model(steers=["first", "second"]))
    assert _dispositions(stage, root) == ["d1", "d1"]


def test_a_repeated_boundary_hands_out_what_the_first_did(stage: Stage) -> None:
    root = stage.root()
    stage.steer(root, "first")
    call = stage.claim(root).boundary()
    assert stage.run(call).steers == ["first"]
    stage.steer(root, "meanwhile")
    assert stage.run(call).steers == ["first"]


def test_a_repeat_answers_how_the_first_stands(stage: Stage) -> None:
    root = stage.root()
    stage.steer(root, "a", "s1")
    before = stage.dump()
    assert stage.steer(root, "a", "s1") == SteerReply("KNOWN", "q")
    assert stage.dump() == before
    attempt = stage.asking(root)
    stage.run(attempt.model(steers=["a"]))
    assert stage.steer(root, "a", "s1") == SteerReply("KNOWN", "d1")
    stage.steer(root, "b", "s2")
    stage.run(attempt.finish(SubagentState.FAILED, ErrorClassification.AGENT_ERROR))
    assert stage.steer(root, "b", "s2") == SteerReply("KNOWN", "m")


def test_a_natural_finish_with_an_undelivered_steer_goes_on_instead(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.asking(root)
    stage.run(attempt.model())
    stage.steer(root, "wait")
    before = stage.dump()
    assert stage.run(attempt.finish()) == Overtaken()
    assert stage.dump() == before
    assert attempt.go(pin=None).steers == ["wait"]
    stage.run(attempt.model(steers=["wait"]))
    assert stage.run(attempt.finish()) == Ended(SubagentState.SUCCEEDED, None)
    assert _dispositions(stage, root) == ["d2"]


def test_an_end_that_is_not_natural_misses_what_was_not_delivered(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.asking(root)
    stage.steer(root, "a", "s1")
    stage.steer(root, "b", "s2")
    seen = len(stage.events(root))
    stage.run(attempt.finish(SubagentState.FAILED, ErrorClassification.AGENT_ERROR))
    assert _dispositions(stage, root) == ["m", "m"]
    assert stage.story(root, seen) == [
        ("steer.missed", {"steer": "s1", "text": "a"}),
        ("steer.missed", {"steer": "s2", "text": "b"}),
        ("run.finished", {"state": "FAILED", "classification": "AGENT_ERROR"}),
    ]


@pytest.mark.parametrize("spoil", ["iterations", "time", "cancel"])
def test_a_finish_where_no_boundary_would_pass_succeeds_and_misses_them(stage: Stage, spoil: str) -> None:
    root = stage.root(timeout_ms=60_000)
    attempt = stage.claim(root)
    attempt.go(pin=Pin("b" * 64, "{}", 1 if spoil == "iterations" else 9, "", ""))
    stage.run(attempt.model())
    stage.steer(root, "too late")
    if spoil == "time":
        stage.expire_deadline(root)
    elif spoil == "cancel":
        stage.cancel(root)
    stopped = {
        "iterations": Stopped("MAX_ITERATIONS", 1),
        "time": Stopped("DEADLINE"),
        "cancel": Stopped("CANCEL"),
    }[spoil]
    assert stage.run(attempt.boundary(pin=None)) == stopped
    assert stage.run(attempt.finish()) == Ended(SubagentState.SUCCEEDED, None)
    assert _dispositions(stage, root) == ["m"]


def test_an_object_ends_although_a_steer_came_before_its_first_claim(stage: Stage) -> None:
    root = stage.root(agent="antique")
    assert stage.steer(root).outcome == "QUEUED", "nobody knows yet that it takes none"
    attempt = stage.claim(root)
    assert stage.steer(root).outcome == "UNSUPPORTED"
    assert stage.run(attempt.finish()) == Ended(SubagentState.SUCCEEDED, None)
    assert _dispositions(stage, root) == ["m"]


def test_what_cannot_be_steered_is_refused_and_nothing_is_stored(stage: Stage) -> None:
    ended, cancelled, below = stage.root(), stage.root(), stage.root()
    stage.end(ended)
    stage.cancel(cancelled)
    _, (child,) = stage.waiting(below)
    stage.cancel(below)
    gone = stage.key(stage.new_run().run_id)
    before = stage.dump()
    answers = [stage.steer(run).outcome for run in (ended, cancelled, child, gone)]
    assert answers == ["TERMINAL", "CANCELLED", "CANCELLED", "UNKNOWN"]
    assert stage.dump() == before


def test_a_run_takes_so_many_steers_in_its_life_and_no_more(stage: Stage) -> None:
    root = stage.root()
    replies = [stage.run(control.steer(root, steer_id=f"s{n}", message="m", max_steers=2)) for n in range(3)]
    assert replies == [SteerReply("QUEUED", ""), SteerReply("QUEUED", ""), SteerReply("CAPACITY", "2")]
    assert len(stage.result(root).steers) == 2


def test_a_suspended_run_takes_steers_and_sees_them_when_it_goes_on(stage: Stage) -> None:
    root = stage.root()
    _, (child,) = stage.waiting(root)
    assert stage.steer(root, "meanwhile").outcome == "QUEUED"
    assert stage.record(root).phase == "waiting_children", "a steer does not wake"
    stage.end(child)
    assert stage.claim(root).go(results=[0], pin=None).steers == ["meanwhile"]


def test_a_swept_run_misses_its_steers(stage: Stage) -> None:
    root = stage.root()
    stage.steer(root)
    stage.cancel(root)
    stage.sweep(root)
    assert _dispositions(stage, root) == ["m"]
