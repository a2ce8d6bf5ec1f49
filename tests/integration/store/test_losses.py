"""Lost processes and lost wake-ups: runs are queued again, and a run that kills its workers is given up."""

from __future__ import annotations

from typing import Any

import pytest
from tests.integration.store.attempt import Attempt
from tests.integration.store.stage import Stage

from retinue.contract import ErrorClassification, SubagentState
from retinue.store.call import RunKey
from retinue.store.operations import control, running
from retinue.store.replies import Ended, Queued, Stale


def _take_over(stage: Stage, run: RunKey, *, process: str = "p1", dead: bool = True) -> Any:
    call = running.take_over(run, process=stage.process(process), dead=dead, losses_before_end=3)
    return stage.run(call)


def test_a_dead_processs_run_is_queued_and_its_fence_void(stage: Stage) -> None:
    root = stage.root()
    lost = stage.asking(root)
    seen = len(stage.events(root))
    queued = _take_over(stage, root)
    assert isinstance(queued, Queued)
    assert (queued.wakeup.run_id, queued.wakeup.number, queued.wakeup.kind) == (root.run_id, 2, "resume")
    record = stage.record(root)
    assert (record.state, record.phase, record.owner) == (SubagentState.RUNNING, "queued", None)
    assert stage.owned() == []
    assert stage.queued() == [root.run_id]
    assert stage.story(root, seen) == [
        ("attempt.lost", {"attempt": 1, "process": stage.process("p1"), "counted": False}),
        ("run.resumed", {"wakeup": 2}),
    ]
    assert stage.run(lost.model()) == Stale()


@pytest.mark.parametrize("phase", ["claimed", "model_call", "tool_call"])
def test_a_loss_counts_only_where_the_runs_own_code_may_be_the_cause(stage: Stage, phase: str) -> None:
    root = stage.root()
    attempt = stage.claim(root)
    if phase != "claimed":
        attempt.go()
    if phase == "tool_call":
        stage.run(attempt.model(tools=["search"]))
    assert stage.record(root).phase == phase
    _take_over(stage, root)
    counted = phase != "model_call"
    assert stage.record(root).fields["ls"] == str(int(counted))
    assert stage.story(root)[-2][1]["counted"] is counted


def test_a_run_that_its_process_disowns_is_queued_without_a_loss(stage: Stage) -> None:
    root = stage.root()
    stage.claim(root)
    assert isinstance(_take_over(stage, root, dead=False), Queued)
    assert stage.record(root).fields["ls"] == "0"
    assert "attempt.lost" not in [kind for kind, _ in stage.story(root)]


def _disown(stage: Stage, run: RunKey, *, counted: bool = True) -> Any:
    process = stage.process("p1")
    return stage.run(
        running.take_over(run, process=process, dead=False, losses_before_end=3, counted=counted)
    )


def test_a_run_that_its_processes_disown_again_and_again_fails_and_answers_its_parent(stage: Stage) -> None:
    root = stage.root()
    _, (child,) = stage.waiting(root)
    for _ in range(2):
        stage.claim(child)
        assert isinstance(_disown(stage, child), Queued)
    stage.claim(child)
    ended = _disown(stage, child)
    assert ended.state is SubagentState.FAILED
    assert ended.wakeup.run_id == root.run_id
    assert stage.record(child).classification is ErrorClassification.INTERNAL_ERROR
    assert stage.claim(root).claimed.journal["1:0"].startswith('"[INTERNAL_ERROR]')
    assert stage.owned() == [root.run_id]


def test_an_iteration_further_a_disowned_run_is_counted_anew(stage: Stage) -> None:
    root = stage.root()
    for _ in range(3):
        for _ in range(2):
            stage.claim(root)
            assert isinstance(_disown(stage, root), Queued)
        attempt = stage.claim(root)
        calls = [0] if attempt.claimed.record.recorded_iteration else []
        if calls:
            stage.run(attempt.tool(0))
        attempt.go(results=calls)
        stage.run(attempt.model(tools=["search"]))
        stage.run(attempt.hand_back())
    assert stage.record(root).recorded_iteration == 3


def test_processes_that_stop_in_good_order_are_not_counted(stage: Stage) -> None:
    root = stage.root()
    for _ in range(5):
        stage.claim(root)
        assert isinstance(_disown(stage, root, counted=False), Queued)
    record = stage.record(root)
    assert record.fields["ls"] == "0"
    assert "di" not in record.fields


def test_three_counted_losses_fail_the_run_and_answer_its_parent(stage: Stage) -> None:
    root = stage.root()
    _, (child,) = stage.waiting(root)
    for _ in range(2):
        stage.claim(child)
        assert isinstance(_take_over(stage, child), Queued)
    stage.claim(child)
    ended = _take_over(stage, child)
    assert ended.state is SubagentState.FAILED
    assert ended.wakeup.run_id == root.run_id
    record = stage.record(child)
    assert record.classification is ErrorClassification.WORKER_LOST
    kinds = [kind for kind, _ in stage.story(root)]
    assert kinds[-4:] == ["attempt.lost", "run.finished", "tool.finished", "run.resumed"]
    assert stage.claim(root).claimed.journal["1:0"].startswith('"[WORKER_LOST]')
    assert stage.owned() == [root.run_id]


def test_losses_that_do_not_count_do_not_add_up(stage: Stage) -> None:
    root = stage.root()
    for _ in range(5):
        attempt = stage.claim(root)
        attempt.go()
        assert isinstance(_take_over(stage, root), Queued)
    assert stage.record(root).fields["ls"] == "0"


def test_what_a_process_does_not_hold_any_more_is_left_alone(stage: Stage) -> None:
    handed_back, ended, taken, gone = (
        stage.root(),
        stage.root(),
        stage.root(),
        stage.key(stage.new_run().run_id),
    )
    stage.run(stage.claim(handed_back).hand_back())
    stage.end(ended, process="p1")
    stage.claim(taken, process="p2")
    before = stage.dump()
    assert [_take_over(stage, run) for run in (handed_back, ended, taken, gone)] == [None] * 4
    assert stage.dump() == before


def test_a_stray_member_of_an_owner_set_is_removed(stage: Stage) -> None:
    root = stage.root()
    stage.server.sadd(f"retinue:{{p{stage.partition:02d}}}:own:{stage.process('p1')}", root.member)
    assert _take_over(stage, root) is None
    assert stage.owned() == []


def test_a_lost_run_under_a_cancel_ends_cancelled(stage: Stage) -> None:
    root = stage.root()
    stage.asking(root)
    stage.cancel(root)
    assert isinstance(_take_over(stage, root), Queued)
    (chunk,) = stage.sweep(root)
    assert chunk.ended == 1
    assert stage.state(root) is SubagentState.CANCELLED


def test_a_handed_back_run_is_queued_with_a_new_wake_up(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.claim(root)
    seen = len(stage.events(root))
    queued = stage.run(attempt.hand_back())
    assert (queued.wakeup.number, queued.wakeup.priority) == (2, 0)
    record = stage.record(root)
    assert (record.state, record.phase) == (SubagentState.RUNNING, "queued"), "STARTING is seen once"
    assert stage.story(root, seen) == [("run.resumed", {"wakeup": 2})]
    again = stage.claim(root, process="p2")
    assert again.fence.epoch == 2
    assert again.claimed.record.started_ms == attempt.claimed.record.started_ms
    assert isinstance(again, Attempt)


def _rewake(stage: Stage, run: RunKey, *, first_ms: int = 0, longest_ms: int = 60_000) -> Any:
    return stage.run(control.rewake(run, first_ms=first_ms, longest_ms=longest_ms))


def test_a_lost_launch_is_woken_as_a_launch_and_a_lost_resume_as_a_resume(stage: Stage) -> None:
    root = stage.root(priority=9, queue="gpu")
    wakeup = _rewake(stage, root)
    assert (wakeup.number, wakeup.kind, wakeup.priority, wakeup.queue) == (2, "delegate", 9, "gpu")
    stage.run(stage.claim(root).hand_back())
    wakeup = _rewake(stage, root)
    assert (wakeup.number, wakeup.kind, wakeup.priority, wakeup.queue) == (4, "resume", 0, "gpu")
    assert stage.queued("gpu") == [root.run_id]


def test_each_resend_waits_twice_as_long_as_the_last_up_to_a_limit(stage: Stage) -> None:
    root = stage.root()
    waits = []
    for _ in range(4):
        before = int(stage.server.time()[0] * 1000)
        assert _rewake(stage, root, first_ms=60_000, longest_ms=200_000) is not None
        assert _rewake(stage, root, first_ms=60_000, longest_ms=200_000) is None, "not yet"
        waits.append(round((int(stage.record(root).fields["ra"]) - before) / 10_000))
        stage.server.hset(root.record, "ra", 0)
    assert waits == [6, 12, 20, 20]


def test_the_back_off_starts_anew_once_the_run_was_queued_again(stage: Stage) -> None:
    root = stage.root()
    _rewake(stage, root, first_ms=60_000)
    stage.run(stage.claim(root).hand_back())
    assert _rewake(stage, root) is not None


def test_only_a_queued_run_is_woken(stage: Stage) -> None:
    held, waiting, ended, gone = stage.root(), stage.root(), stage.root(), stage.key(stage.new_run().run_id)
    stage.claim(held)
    stage.waiting(waiting)
    stage.end(ended)
    before = stage.dump()
    assert [_rewake(stage, run) for run in (held, waiting, ended, gone)] == [None] * 4
    assert stage.dump() == before


def test_a_run_that_no_worker_can_run_says_so_and_stays_claimable(stage: Stage) -> None:
    root = stage.root()
    assert stage.run(control.no_worker(root)) is True
    assert (stage.state(root), stage.record(root).phase) == (SubagentState.PENDING, "no_worker")
    assert stage.queued() == [root.run_id]
    assert stage.run(control.no_worker(root)) is False
    assert _rewake(stage, root) is not None
    assert stage.record(root).phase == "queued"
    stage.run(control.no_worker(root))
    assert stage.claim(root).fence.epoch == 1


def test_a_run_that_was_claimed_before_stays_queued_where_no_worker_can_run_it(stage: Stage) -> None:
    root = stage.root()
    stage.run(stage.claim(root).hand_back())
    held, ended, gone = stage.root(), stage.root(), stage.key(stage.new_run().run_id)
    stage.claim(held)
    stage.end(ended)
    before = stage.dump()
    assert [stage.run(control.no_worker(run)) for run in (root, held, ended, gone)] == [False] * 4
    assert stage.dump() == before


def test_the_end_of_a_lost_run_is_terminal_for_its_old_attempt(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.claim(root)
    call = running.take_over(root, process=stage.process("p1"), dead=True, losses_before_end=1)
    assert stage.run(call) == Ended(SubagentState.FAILED, None)
    before = stage.dump()
    assert stage.run(attempt.finish()) == Stale()
    assert stage.dump() == before
