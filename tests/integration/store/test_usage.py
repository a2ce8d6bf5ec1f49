"""What a run uses is counted once, on its record and in the sums of all runs above it, however it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.integration.store.attempt import REFUND, Attempt
from tests.integration.store.stage import Stage

from retinue.contract import ErrorClassification, SubagentState, Usage
from retinue.store.call import RunKey
from retinue.store.operations import asking, control, reading, running
from retinue.store.replies import Suspended

CALL = Usage(
    model_calls=1,
    input_tokens=100,
    output_tokens=20,
    cached_tokens=10,
    reasoning_tokens=5,
    cost_usd=0.0003,
)
STARTED = Usage(attempts=1, cost_usd=0.0)


def _family(stage: Stage) -> tuple[RunKey, RunKey, Attempt]:
    """Root, child and a grandchild whose model called a tool."""
    parent = stage.calling(stage.root())
    child = stage.calling(stage.child(parent))
    grandchild = stage.calling(stage.child(child), "search")
    return parent.run, child.run, grandchild


def _below(stage: Stage, run: RunKey) -> tuple[Usage, Usage]:
    record = stage.record(run)
    return record.usage, record.tree_usage


def test_a_response_counts_for_the_run_and_at_once_for_all_above_it(stage: Stage) -> None:
    root, child, grandchild = _family(stage)
    assert stage.record(grandchild.run).tree_usage == CALL + STARTED
    assert _below(stage, child) == (CALL + STARTED, CALL + CALL + STARTED + STARTED)
    assert _below(stage, root)[1] == CALL + CALL + CALL + STARTED + STARTED + STARTED


def test_a_tool_counts_for_all_above_by_its_name(stage: Stage) -> None:
    root, child, grandchild = _family(stage)
    stage.run(grandchild.tool(0))
    for run in (root, child):
        used, in_all = _below(stage, run)
        assert (used.tool_calls, dict(used.tools)) == (0, {})
        assert (in_all.tool_calls, in_all.tools) == (1, {"search": 1})
        assert in_all.tool_seconds == {"search": 0.007}


@pytest.mark.parametrize(
    "repeated",
    [
        lambda attempt: attempt.model(tools=["search"]),
        lambda attempt: attempt.model(micro_usd=None),
        lambda attempt: attempt.retry(),
    ],
    ids=["response", "response of unknown cost", "retry"],
)
def test_a_lost_reply_counts_nothing_twice(stage: Stage, repeated: Callable[[Attempt], Any]) -> None:
    attempt = stage.asking(stage.child(stage.calling(stage.root())))
    call = repeated(attempt)
    stage.run(call)
    before = stage.dump()
    stage.run(call)
    assert stage.dump() == before


def test_a_lost_reply_to_a_claim_or_a_tools_result_counts_nothing_twice(stage: Stage) -> None:
    root, _, grandchild = _family(stage)
    stage.run(tool := grandchild.tool(0))
    stage.run(tool)
    stage.run(grandchild.finish(reply="done"))
    assert stage.record(root).tree_usage.tools["search"] == 1
    parent = stage.calling(stage.root())
    child = stage.child(parent)
    claim = stage.claim_call(child, token="once")
    stage.run(claim)
    stage.run(claim)
    assert stage.record(parent.run).tree_usage.attempts == 2


def test_a_retry_is_counted_beside_the_responses(stage: Stage) -> None:
    root, child, grandchild = _family(stage)
    stage.run(grandchild.retry())
    stage.run(grandchild.retry())
    assert stage.record(grandchild.run).usage.retries == 2
    assert [_below(stage, run)[1].retries for run in (root, child)] == [2, 2]


def test_one_unknown_price_makes_the_cost_of_all_above_unknown_and_of_nobody_else(stage: Stage) -> None:
    parent = stage.calling(stage.root(), "run_agent", "run_agent")
    priced, unpriced = (stage.asking(stage.child(parent, index)) for index in (0, 1))
    stage.run(priced.model())
    stage.run(unpriced.model(micro_usd=None))
    assert stage.record(unpriced.run).usage.cost_usd is None
    assert stage.record(priced.run).tree_usage.cost_usd == 0.0003
    root = stage.record(parent.run)
    assert (root.usage.cost_usd, root.tree_usage.cost_usd) == (0.0003, None)
    assert root.tree_usage.input_tokens == 300


def test_a_free_response_has_a_known_cost_of_zero(stage: Stage) -> None:
    attempt = stage.asking(stage.root())
    stage.run(attempt.model(micro_usd=0))
    assert stage.record(attempt.run).usage.cost_usd == 0.0


def test_what_an_object_costs_is_unknown_to_those_above_it_however_often_it_starts(stage: Stage) -> None:
    parent = stage.calling(stage.root())
    child = stage.child(parent, agent="antique")
    for _ in range(2):
        stage.claim(child)
        stage.run(running.take_over(child, process=stage.process("p1"), dead=True, losses_before_end=9))
    assert stage.record(parent.run).tree_usage.cost_usd is None
    assert stage.server.hget(parent.run.record, "xunk") == "1"


def test_each_process_that_dies_with_a_run_is_one_more_attempt(stage: Stage) -> None:
    root, _, grandchild = _family(stage)
    loss = running.take_over(grandchild.run, process=stage.process("p1"), dead=True, losses_before_end=9)
    stage.run(loss)
    stage.run(loss)
    again = stage.claim(grandchild.run)
    stage.run(again.tool(0))
    assert stage.record(grandchild.run).usage.attempts == 2
    assert stage.record(root).tree_usage.attempts == 4


def test_going_on_after_a_suspension_is_no_further_attempt(stage: Stage) -> None:
    parent, (child,) = stage.waiting(stage.root())
    stage.end(child)
    stage.claim(parent.run)
    assert stage.record(parent.run).usage.attempts == 1


def _wait(stage: Stage, run: RunKey, ms: int) -> None:
    """Lets a suspended run have waited so long."""
    stage.server.hincrby(run.record, "ws", -ms)


def test_a_wait_counts_once_it_is_over(stage: Stage) -> None:
    parent = stage.calling(stage.root())
    middle, (child,) = stage.waiting(stage.child(parent))
    _wait(stage, middle.run, 5_000)
    assert stage.record(middle.run).usage.waiting_seconds == 0.0
    stage.end(child)
    waited = stage.record(middle.run).usage.waiting_seconds
    assert 5.0 <= waited < 10.0
    assert stage.record(parent.run).tree_usage.waiting_seconds == waited
    assert stage.server.hget(middle.run.record, "ws") is None


def test_a_wait_for_a_human_counts_as_one_and_so_does_one_that_the_end_cuts_short(stage: Stage) -> None:
    attempt = stage.calling(stage.root(), "refund")
    assert isinstance(stage.run(attempt.ask(REFUND)), Suspended)
    _wait(stage, attempt.run, 2_000)
    stage.run(asking.deny(attempt.run, above=attempt.run.run_id, slot="1:0", decision_id="d", reason="no"))
    assert stage.record(attempt.run).usage.waiting_seconds >= 2.0

    cancelled, _ = stage.waiting(stage.root())
    _wait(stage, cancelled.run, 3_000)
    stage.cancel(cancelled.run)
    stage.sweep(cancelled.run)
    assert stage.record(cancelled.run).usage.waiting_seconds >= 3.0


def test_a_clock_that_is_put_back_takes_nothing_off_a_wait(stage: Stage) -> None:
    parent, (child,) = stage.waiting(stage.root())
    _wait(stage, parent.run, -60_000)
    stage.end(child)
    assert stage.record(parent.run).usage.waiting_seconds == 0.0


def _lose(stage: Stage, attempt: Attempt) -> None:
    stage.run(running.take_over(attempt.run, process=stage.process("p1"), dead=True, losses_before_end=1))


def _cancel(stage: Stage, attempt: Attempt) -> None:
    stage.cancel(attempt.run)
    stage.run(attempt.finish(SubagentState.CANCELLED))


ENDS: dict[str, Callable[[Stage, Attempt], Any]] = {
    "SUCCEEDED": lambda stage, attempt: stage.run(attempt.finish()),
    "FAILED": lambda stage, attempt: stage.run(
        attempt.finish(SubagentState.FAILED, ErrorClassification.TOOL_ERROR)
    ),
    "CANCELLED": _cancel,
    "INTERRUPTED": lambda stage, attempt: stage.run(
        attempt.finish(SubagentState.INTERRUPTED, ErrorClassification.DEADLINE_EXCEEDED)
    ),
    "lost": _lose,
}


@pytest.mark.parametrize("end", ENDS)
def test_usage_is_told_of_every_end(stage: Stage, end: str) -> None:
    root, child, grandchild = _family(stage)
    stage.run(grandchild.tool(0))
    ENDS[end](stage, grandchild)
    record = stage.result(grandchild.run).view.record
    lost = Usage(attempts=1, cost_usd=0.0) if end == "lost" else Usage(cost_usd=0.0)
    tool = Usage(tool_calls=1, tools={"search": 1}, tool_seconds={"search": 0.007}, cost_usd=0.0)
    assert record.is_terminal
    assert record.usage == CALL + STARTED + tool + lost
    for run in (root, child):
        assert stage.record(run).tree_usage.tools["search"] == 1


def test_a_run_that_no_model_ever_answered_tells_what_it_tried(stage: Stage) -> None:
    attempt = stage.asking(stage.root())
    stage.run(attempt.retry())
    stage.run(attempt.finish(SubagentState.FAILED, ErrorClassification.MODEL_UNAVAILABLE))
    outcome: Any = stage.run(reading.read_outcome(attempt.run))
    assert outcome.view.record.usage == Usage(retries=1, attempts=1, cost_usd=0.0)


def test_what_abandoned_runs_use_is_shown_live_and_is_no_part_of_the_result(stage: Stage) -> None:
    parent = stage.calling(stage.root())
    child = stage.asking(stage.child(parent, abandon=True))
    stage.run(parent.finish())
    ended = stage.record(parent.run).ended_tree_usage
    stage.run(child.model(tools=["search"]))
    stage.run(child.tool(0))
    record = stage.record(parent.run)
    assert record.ended_tree_usage == ended == record.usage + STARTED
    assert record.tree_usage.model_calls == 2
    assert record.tree_usage.tools["search"] == 1


def test_the_sums_reach_those_further_up_although_a_run_between_has_expired(stage: Stage) -> None:
    top = stage.calling(stage.root())
    upper = stage.calling(stage.child(top))
    middle = stage.calling(stage.child(upper))
    child = stage.asking(stage.child(middle, abandon=True))
    stage.run(middle.finish())
    stage.forget(middle.run)
    stage.run(child.model())
    assert stage.record(upper.run).tree_usage.model_calls == 3
    assert stage.record(top.run).tree_usage.model_calls == 4

    stage.run(upper.finish(SubagentState.FAILED, ErrorClassification.TOOL_ERROR))
    stage.forget(upper.run)
    assert not stage.server.exists(upper.run.record)
    child.go(pin=None)
    stage.run(child.model())
    assert stage.record(top.run).tree_usage.model_calls == 5


def test_a_run_without_parents_or_whose_root_has_expired_writes_nothing_elsewhere(stage: Stage) -> None:
    parent = stage.calling(stage.root())
    child = stage.asking(stage.child(parent, abandon=True))
    stage.run(parent.finish())
    stage.forget(parent.run)
    stage.run(child.model())
    assert not stage.server.exists(parent.run.record)
    stage.run(control.cancel(child.run, reason="enough"))


def test_names_that_a_model_invents_do_not_make_a_record_grow_without_end(stage: Stage) -> None:
    parent = stage.calling(stage.root())
    names = [f"invented-{n}" for n in range(600)]
    child = stage.calling(stage.child(parent), *names)
    for index, name in enumerate(names):
        stage.run(child.tool(index, tool=name))
    for run in (child.run, parent.run):
        used = stage.record(run).tree_usage
        assert used.tool_calls == sum(used.tools.values()) == 600
        assert used.tools["..."] > 0
        assert stage.server.object("encoding", run.record) == "listpack"


def test_a_handoffs_calls_are_counted(stage: Stage) -> None:
    parent = stage.calling(stage.root())
    child = stage.calling(stage.child(parent, agent="support"), "handoff_conversation")
    stage.run(child.hand_off())
    assert stage.record(parent.run).tree_usage.tools == {"handoff_conversation": 1}


def test_a_delegation_counts_as_a_call_of_the_parent_with_the_childs_time(stage: Stage) -> None:
    parent = stage.calling(stage.root())
    child = stage.child(parent)
    stage.server.hincrby(child.record, "cr", -4_000)
    stage.end(child)
    used = stage.record(parent.run).usage
    assert used.tools == {"run_agent": 1}
    assert used.tool_seconds["run_agent"] >= 4.0
    assert json.loads(json.dumps(used.to_dict()))["cost_usd"] == 0.0003
