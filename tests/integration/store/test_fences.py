"""Never twice: whoever does not hold a run any more is refused by every write, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.integration.store.attempt import REFUND, Attempt
from tests.integration.store.stage import Stage

from retinue.contract import ErrorClassification, SubagentState
from retinue.store.operations import running
from retinue.store.operations.launching import ParentRefused
from retinue.store.replies import Fence, Stale


def _launch(stage: Stage, attempt: Attempt) -> Any:
    return stage.launch_call(stage.new_child(attempt, 5), parent=attempt.as_parent(1))


WRITES: dict[str, Callable[[Stage, Attempt], Any]] = {
    "boundary": lambda stage, attempt: attempt.boundary(results=[0]),
    "record_model": lambda stage, attempt: attempt.model(tools=["search"]),
    "record_tool_result": lambda stage, attempt: attempt.tool(0),
    "note_retry": lambda stage, attempt: attempt.retry(),
    "note_draining": lambda stage, attempt: attempt.draining(),
    "note_progress": lambda stage, attempt: attempt.progress(),
    "suspend": lambda stage, attempt: attempt.suspend([attempt.run]),
    "suspend that asks a human": lambda stage, attempt: attempt.ask(REFUND),
    "begin_approved": lambda stage, attempt: attempt.begin(),
    "finish": lambda stage, attempt: attempt.finish(),
    "hand_back": lambda stage, attempt: attempt.hand_back(),
    "handoff": lambda stage, attempt: attempt.hand_off(),
    "launch of a child": _launch,
}


def _wrong_epoch(stage: Stage, attempt: Attempt) -> Attempt:
    return attempt.with_fence(attempt.fence.epoch + 1, attempt.fence.token)


def _wrong_token(stage: Stage, attempt: Attempt) -> Attempt:
    return attempt.with_fence(attempt.fence.epoch, "another")


def _after_the_end(stage: Stage, attempt: Attempt) -> Attempt:
    stage.run(attempt.finish(SubagentState.FAILED, ErrorClassification.TOOL_ERROR))
    return attempt


def _after_suspend(stage: Stage, attempt: Attempt) -> Attempt:
    stage.run(attempt.suspend([stage.child(attempt, 1), stage.child(attempt, 2)]))
    return attempt


def _after_hand_back(stage: Stage, attempt: Attempt) -> Attempt:
    stage.run(attempt.hand_back())
    return attempt


def _after_a_take_over(stage: Stage, attempt: Attempt) -> Attempt:
    call = running.take_over(attempt.run, process=stage.process("p1"), dead=True, losses_before_end=3)
    stage.run(call)
    return attempt


def _after_anothers_claim(stage: Stage, attempt: Attempt) -> Attempt:
    stage.claim(_after_hand_back(stage, attempt).run, process="p2")
    return attempt


SPOILS = [
    _wrong_epoch,
    _wrong_token,
    _after_the_end,
    _after_suspend,
    _after_hand_back,
    _after_a_take_over,
    _after_anothers_claim,
]


@pytest.mark.parametrize("spoil", SPOILS, ids=[spoil.__name__[1:] for spoil in SPOILS])
@pytest.mark.parametrize("write", WRITES)
def test_a_write_without_the_fence_is_refused(
    stage: Stage, write: str, spoil: Callable[[Stage, Attempt], Attempt]
) -> None:
    held = stage.calling(stage.root(), "search", "run_agent", "run_agent")
    attempt = spoil(stage, held)
    call, before = WRITES[write](stage, attempt), stage.dump()
    assert stage.run(call) in (Stale(), ParentRefused("STALE"))
    assert stage.dump() == before


@pytest.mark.parametrize("write", WRITES)
def test_a_write_to_a_run_that_is_gone_creates_nothing(stage: Stage, write: str) -> None:
    attempt = stage.calling(stage.root(), "search")
    call = WRITES[write](stage, attempt)
    stage.run(attempt.finish(SubagentState.FAILED, ErrorClassification.TOOL_ERROR))
    stage.forget(attempt.run)
    before = stage.dump()
    assert stage.run(call) in (Stale(), ParentRefused("STALE"))
    assert stage.dump() == before


def test_a_run_that_nobody_holds_has_an_empty_token_which_no_fence_can_have(stage: Stage) -> None:
    root = stage.root()
    assert stage.server.hget(root.record, "tok") == ""
    with pytest.raises(ValueError, match="token"):
        Fence(0, "")
    with pytest.raises(ValueError, match="token"):
        running.claim(root, token="", process="p1", capable="")
