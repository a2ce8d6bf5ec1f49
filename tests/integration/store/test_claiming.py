"""Claiming: who gets a run, what is handed out, and what a claim ends instead."""

from __future__ import annotations

from tests.integration.store.attempt import PIN
from tests.integration.store.stage import Stage

from retinue.contract import ErrorClassification, SubagentState
from retinue.store.operations import running
from retinue.store.record import WakeUp
from retinue.store.replies import Claimed, Ended, NotClaimed, Stale, Suspended


def test_the_first_claim_starts_the_run_and_hands_out_all_that_it_needs(stage: Stage) -> None:
    root = stage.root(max_iterations=7)
    claimed = stage.run(stage.claim_call(root, token="token-1"))
    assert (claimed.fence.epoch, claimed.fence.token) == (1, "token-1")
    record = claimed.record
    assert (record.state, record.phase, record.owner) == (
        SubagentState.STARTING,
        "claimed",
        stage.process("p1"),
    )
    assert (record.max_iterations, record.iteration, record.spec_digest) == (7, 0, None)
    assert claimed.now_ms >= record.created_ms
    assert record.started_ms is not None
    assert (claimed.request_json, claimed.spec_json) == ('{"goal":"g"}', None)
    assert (claimed.thread, claimed.journal, claimed.grants) == (['{"role":"user","content":"hi"}'], {}, [])
    assert stage.queued() == []
    assert stage.owned() == [root.run_id]
    assert stage.story(root)[1:] == [("run.started", {"attempt": 1, "process": stage.process("p1")})]


def test_a_held_run_is_not_claimed_again(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.claim(root)
    before = stage.dump()
    assert stage.run(stage.claim_call(root, process="p2")) == NotClaimed("NOT_QUEUED", "claimed")
    stage.run(attempt.boundary())
    assert stage.run(stage.claim_call(root, process="p2")) == NotClaimed("NOT_QUEUED", "model_call")
    assert set(stage.dump()) >= set(before)
    assert stage.owned("p2") == []


def test_a_run_that_is_gone_or_was_never_there_is_not_claimed(stage: Stage) -> None:
    root = stage.root()
    stage.end(root)
    stage.forget(root)
    before = stage.dump()
    assert stage.run(stage.claim_call(root)) == NotClaimed("GONE", "")
    assert stage.dump() == before


def test_a_run_that_has_ended_is_answered_with_its_state(stage: Stage) -> None:
    root = stage.root()
    stage.end(root)
    before = stage.dump()
    assert stage.run(stage.claim_call(root)) == Ended(SubagentState.SUCCEEDED, None)
    assert stage.dump() == before


def test_a_worker_without_the_agent_leaves_the_run_queued(stage: Stage) -> None:
    root = stage.root(agent="support")
    before = stage.dump()
    for capable in (
        running.capability(["supp", "support2", "tech support", "upport"], []),
        running.capability([], []),
    ):
        assert stage.run(stage.claim_call(root, capable=capable)) == NotClaimed("NOT_CAPABLE", "support")
    assert stage.dump() == before
    default = stage.root(agent="")
    assert isinstance(stage.run(stage.claim_call(default, capable=running.capability([], []))), Claimed)


def test_an_agents_name_may_hold_what_patterns_and_lists_are_made_of(stage: Stage) -> None:
    name = "Größe (v1.0) %a [x]*"
    capable = running.capability(["a", name], ["b"])
    assert isinstance(stage.run(stage.claim_call(stage.root(agent=name), capable=capable)), Claimed)


def test_a_later_claim_raises_the_epoch_and_hands_out_spec_thread_and_journal(stage: Stage) -> None:
    root = stage.root()
    parent, (child,) = stage.waiting(root)
    stage.end(child, reply="the answer")
    claimed = stage.run(stage.claim_call(root, process="p9"))
    assert claimed.fence.epoch == 2
    assert (claimed.record.state, claimed.record.phase) == (SubagentState.RUNNING, "tool_call")
    assert claimed.record.recorded_iteration == 1
    assert (claimed.record.model, claimed.record.provider) == ("gpt-5-mini", "openai")
    assert claimed.spec_json == PIN.spec_json
    assert claimed.thread == ['{"role":"user","content":"hi"}', '{"role":"assistant"}']
    assert claimed.journal == {"1:0": '"the answer"'}
    assert stage.owned("p9") == [root.run_id]
    assert parent.fence.token != claimed.fence.token


def test_grants_are_handed_out_along_the_path_and_no_others(stage: Stage) -> None:
    root = stage.root(grant_json='{"g":"root"}')
    parent = stage.calling(root, "run_agent", "run_agent")
    child = stage.child(parent, 0, grant_json='{"g":"child"}')
    sibling = stage.child(parent, 1)
    below = stage.child(stage.calling(child), 0, grant_json='{"g":"below"}')
    beside = stage.child(stage.calling(sibling), 0, grant_json='{"g":"beside"}')
    assert stage.claim(below).claimed.grants == ['{"g":"root"}', '{"g":"child"}', '{"g":"below"}']
    assert stage.claim(beside).claimed.grants == ['{"g":"root"}', '{"g":"beside"}']


def test_a_claim_under_a_cancel_ends_the_child_and_wakes_its_parent(stage: Stage) -> None:
    root = stage.root()
    _, (child,) = stage.waiting(root)
    stage.cancel(child)
    seen, call = len(stage.events(root)), stage.claim_call(child)
    ended = stage.run(call)
    assert ended == Ended(SubagentState.CANCELLED, WakeUp(stage.tenant, root.run_id, 2, "resume", "support",
                          "retinue", 0, root.run_id, None))  # fmt: skip
    assert stage.run(call) == ended, "the repeat still tells whom to wake"
    assert stage.story(root, seen) == [
        ("run.finished", {"state": "CANCELLED", "classification": None}),
        ("tool.finished", {"iteration": 1, "index": 0, "tool": "run_agent", "ok": False}),
        ("run.resumed", {"wakeup": 2}),
    ]
    assert stage.queued() == [root.run_id]
    journal = stage.claim(root).claimed.journal
    assert journal["1:0"].startswith('"[CANCELLED]')


def test_a_claim_past_the_deadline_ends_the_run_interrupted(stage: Stage) -> None:
    root = stage.root(timeout_ms=60_000)
    stage.expire_deadline(root)
    assert stage.run(stage.claim_call(root)) == Ended(SubagentState.INTERRUPTED, None)
    record = stage.record(root)
    assert record.classification is ErrorClassification.DEADLINE_EXCEEDED
    assert record.started_ms is None
    assert stage.due() == {}


def test_an_objects_claim_takes_no_steering_and_passes_through_starting_in_one_step(stage: Stage) -> None:
    root = stage.root(agent="antique")
    claimed = stage.run(stage.claim_call(root))
    assert (claimed.record.state, claimed.record.phase) == (SubagentState.RUNNING, "tool_call")
    assert [kind for kind, _ in stage.story(root)] == ["run.created", "run.started"]
    assert stage.steer(root).outcome == "UNSUPPORTED"


def test_a_suspended_run_is_nobodys_until_it_is_queued(stage: Stage) -> None:
    root = stage.root()
    parent, _ = stage.waiting(root)
    assert stage.owned() == []
    assert stage.run(stage.claim_call(root)) == NotClaimed("NOT_QUEUED", "waiting_children")
    assert isinstance(stage.run(parent.suspend([])), Suspended | Stale)
