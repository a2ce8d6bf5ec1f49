"""What a run asks of a human: asked once, decided once, in time, by whoever holds a handle above it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.integration.store.attempt import REFUND, WHERE, Attempt
from tests.integration.store.stage import Stage

from retinue.contract import DecisionRefusal, PendingRequest, Phase, RequestKind, SubagentState
from retinue.store import keys
from retinue.store.call import RunKey, ScriptCall
from retinue.store.operations import asking, control, reading
from retinue.store.replies import (
    Approved,
    Begun,
    NotApproved,
    Queued,
    Ready,
    RequestState,
    Stale,
    Stopped,
    Suspended,
    UsedBefore,
)

Decide = Callable[..., ScriptCall[asking.DecisionReply]]


def _approve(run: RunKey, slot: str = "1:0", *, above: RunKey | None = None, by: str = "d1") -> Any:
    return asking.approve(run, above=(above or run).run_id, slot=slot, decision_id=by)


def _deny(
    run: RunKey, slot: str = "1:0", *, above: RunKey | None = None, by: str = "d1", reason: str = "too much"
) -> Any:
    return asking.deny(run, above=(above or run).run_id, slot=slot, decision_id=by, reason=reason)


def _answer(run: RunKey, slot: str = "1:0", *, above: RunKey | None = None, by: str = "d1") -> Any:
    return asking.answer(run, above=(above or run).run_id, slot=slot, decision_id=by, value="Berlin")


def _asking(stage: Stage, *asked: Any, root: RunKey | None = None, **how: Any) -> Attempt:
    """A run that waits for what it asks."""
    requests = asked or (REFUND,)
    attempt = stage.calling(root or stage.root(), *["refund"] * len(requests))
    assert stage.run(attempt.ask(*requests, **how)) == Suspended(len(requests))
    return attempt


def _accepted(reply: asking.DecisionReply) -> Any:
    assert reply.refused is None, reply
    return reply.wakeup


def _expire(stage: Stage, run: RunKey, slot: str = "1:0") -> None:
    """Lets a request's time be over, where the test needs the moment exactly."""
    name = stage.part(run, "run:{}:a")
    raw = stage.server.hget(name, slot)
    stage.server.hset(name, slot, re.sub(r'"expires_ms":\d+', '"expires_ms":1', raw, count=1))
    stage.server.zadd(keys.due(stage.partition), {run.member: 1})


def test_an_asking_run_holds_no_worker_and_its_event_says_what_is_asked(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.calling(root, "refund")
    seen = len(stage.events(root))
    assert stage.run(attempt.ask(REFUND)) == Suspended(1)
    record = stage.record(root)
    assert (record.state, record.phase, record.owner) == (SubagentState.RUNNING, "waiting_approval", None)
    assert (record.pending, stage.owned()) == (1, [])
    (kind, data), suspended = stage.story(root, seen)
    assert kind == "approval.requested"
    expires_ms = data.pop("expires_ms")
    assert data == {
        "iteration": 1, "index": 0, "tool": "refund", "call_id": "call_1", "argument_hash": "a" * 64,
        "arguments": {"order": 7, "note": "\n\"x\""}, "audience": "user",
    }  # fmt: skip
    assert suspended == ("run.suspended", {"phase": "waiting_approval", "open": 1})
    assert stage.due() == {root.run_id: expires_ms}
    (pending,) = stage.run(asking.read_requests(root)).requests
    assert pending == PendingRequest(
        request_id=f"{root.run_id}/1:0", run_id=root.run_id, kind=RequestKind.APPROVAL, agent="support",
        tool="refund", arguments={"order": 7, "note": "\n\"x\""}, argument_hash="a" * 64, call_id="call_1",
        asked_at=pending.asked_at, expires_at=expires_ms / 1000,
    )  # fmt: skip
    assert pending.expires_at - pending.asked_at == 60


def test_an_approval_wakes_the_owner_which_may_use_it_once(stage: Stage) -> None:
    root = _asking(stage).run
    seen = len(stage.events(root))
    wakeup = _accepted(stage.run(_approve(root)))
    assert (wakeup.run_id, wakeup.number) == (root.run_id, 2)
    decided = {"iteration": 1, "index": 0, "decision": "approved", "reason": ""}
    assert stage.story(root, seen) == [("approval.decided", decided), ("run.resumed", {"wakeup": 2})]
    assert stage.record(root).pending == 0
    again = stage.claim(root)
    assert again.claimed.journal == {}
    assert again.claimed.decisions == {"1:0": RequestState.APPROVED}
    assert stage.run(again.begin()) == Begun()
    assert stage.run(again.begin()) == UsedBefore(), "another operation"
    stage.run(again.hand_back())
    later = stage.claim(root)
    assert later.claimed.decisions == {"1:0": RequestState.USED}
    assert stage.run(later.begin()) == UsedBefore()
    stage.run(later.tool(0))
    later.go(results=[0], pin=None)


def test_an_approval_is_for_these_arguments_alone(stage: Stage) -> None:
    root = _asking(stage).run
    stage.run(_approve(root))
    again = stage.claim(root)
    before = stage.dump()
    assert stage.run(again.begin(argument_hash="b" * 64)) == NotApproved()
    assert stage.run(again.begin(1)) == NotApproved()
    assert stage.dump() == before


def test_a_call_that_was_not_approved_yet_is_not_begun(stage: Stage) -> None:
    attempt = stage.calling(stage.root(), "refund")
    assert stage.run(attempt.begin()) == NotApproved()


def test_a_denial_is_the_calls_result_and_wakes_the_owner(stage: Stage) -> None:
    root = _asking(stage).run
    seen = len(stage.events(root))
    assert _accepted(stage.run(_deny(root))).number == 2
    assert stage.story(root, seen) == [
        ("approval.decided", {"iteration": 1, "index": 0, "decision": "denied", "reason": "too much"}),
        ("tool.finished", {"iteration": 1, "index": 0, "tool": "refund", "ok": False}),
        ("run.resumed", {"wakeup": 2}),
    ]
    again = stage.claim(root)
    assert again.claimed.journal == {"1:0": '"[DENIED] A human refused this call. Reason: too much"'}
    assert again.claimed.decisions == {"1:0": RequestState.DENIED}
    assert stage.run(again.begin()) == NotApproved()
    assert stage.record(root).usage.tools == {"refund": 1}


def test_an_answer_is_the_calls_result(stage: Stage) -> None:
    root = _asking(stage, WHERE, phase=Phase.WAITING_INPUT).run
    assert stage.record(root).phase == "waiting_input"
    seen = len(stage.events(root))
    assert _accepted(stage.run(_answer(root))).number == 2
    assert stage.story(root, seen) == [
        ("input.answered", {"iteration": 1, "index": 0, "decision": "answered", "reason": ""}),
        ("tool.finished", {"iteration": 1, "index": 0, "tool": "where are you", "ok": True}),
        ("run.resumed", {"wakeup": 2}),
    ]
    assert stage.claim(root).claimed.journal == {"1:0": '"Berlin"'}


def test_an_input_can_be_denied_but_not_approved_and_an_approval_not_answered(stage: Stage) -> None:
    root = _asking(stage, REFUND, WHERE).run
    before = stage.dump()
    assert stage.run(_answer(root, "1:0")).refused is DecisionRefusal.WRONG_KIND
    assert stage.run(_approve(root, "1:1")).refused is DecisionRefusal.WRONG_KIND
    assert stage.dump() == before
    assert stage.run(_deny(root, "1:1", reason="")) == asking.DecisionReply(None, None)
    assert stage.record(root).phase == "waiting_approval"


def test_a_run_waits_on_for_its_other_calls_and_says_for_which(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.calling(root, "refund", "where", "run_agent")
    child = stage.child(attempt, 2)
    assert stage.run(attempt.ask(REFUND, WHERE, child)) == Suspended(3)
    assert _accepted(stage.run(_deny(root, "1:0"))) is None
    assert stage.record(root).phase == "waiting_input"
    assert _accepted(stage.run(_answer(root, "1:1"))) is None
    assert stage.record(root).phase == "waiting_children"
    assert stage.record(root).pending == 0
    assert stage.end(child).wakeup.run_id == root.run_id


def test_an_approved_call_does_not_wait_for_its_siblings(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.calling(root, "refund", "where", "run_agent")
    child = stage.child(attempt, 2)
    stage.run(attempt.ask(REFUND, WHERE, child))
    assert _accepted(stage.run(_approve(root))) is not None
    again = stage.claim(root)
    assert again.claimed.decisions == {"1:0": RequestState.APPROVED, "1:1": RequestState.OPEN}
    assert stage.run(again.ask(REFUND, WHERE, child)) == Approved(("1:0",)), "not yet run"
    assert stage.run(again.begin()) == Begun()
    stage.run(again.tool(0, tool="refund"))
    seen = len(stage.events(root))
    assert stage.run(again.ask(REFUND, WHERE, child, phase=Phase.WAITING_INPUT)) == Suspended(2)
    assert [kind for kind, _ in stage.story(root, seen)] == ["run.suspended"], "asked once"
    assert stage.record(root).pending == 1
    stage.end(child)
    assert _accepted(stage.run(_answer(root, "1:1"))) is not None


def test_a_decision_while_the_owner_runs_is_found_at_its_next_suspend(stage: Stage) -> None:
    root = _asking(stage, REFUND, REFUND, WHERE).run
    stage.run(_approve(root, "1:0"))
    again = stage.claim(root)
    stage.run(again.begin(0))
    stage.run(again.tool(0, tool="refund"))
    assert stage.run(_approve(root, "1:1", by="d2")) == asking.DecisionReply(None, None)
    assert stage.run(_answer(root, "1:2", by="d3")) == asking.DecisionReply(None, None)
    assert stage.run(again.ask(REFUND, REFUND, WHERE)) == Approved(("1:1",))
    stage.run(again.begin(1))
    stage.run(again.tool(1, tool="refund"))
    assert stage.run(again.ask(REFUND, REFUND, WHERE)) == Ready()


def test_a_request_is_decided_once(stage: Stage) -> None:
    for first in (_approve, _deny):
        root = _asking(stage).run
        stage.run(first(root))
        before = stage.dump()
        for call in (_approve(root, by="d2"), _deny(root, by="d3"), _answer(root, by="d4")):
            assert stage.run(call) == asking.DecisionReply(DecisionRefusal.DECIDED, None)
        assert stage.dump() == before


@pytest.mark.parametrize("decide", [_approve, _deny])
def test_a_repeated_decision_gets_the_first_answer(stage: Stage, decide: Decide) -> None:
    root = _asking(stage).run
    call = decide(root)
    first, after = stage.run(call), stage.dump()
    assert first.wakeup is not None
    assert stage.run(call) == first
    assert stage.dump() == after
    again = stage.claim(root)
    if decide is _approve:
        stage.run(again.begin())
        stage.run(again.tool(0, tool="refund"))
    again.go(results=[0], pin=None)
    stage.run(again.model())
    stage.run(again.finish())
    after = stage.dump()
    assert stage.run(call) == first, "also long after"
    assert stage.dump() == after


def test_a_repeated_answer_gets_the_first_answer(stage: Stage) -> None:
    root = _asking(stage, WHERE, phase=Phase.WAITING_INPUT).run
    call = _answer(root)
    first, after = stage.run(call), stage.dump()
    assert stage.run(call) == first
    assert stage.dump() == after


def test_a_repeated_suspend_and_begin_ask_and_use_once(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.calling(root, "refund")
    suspend = attempt.ask(REFUND)
    stage.run(suspend)
    after = stage.dump()
    assert stage.run(suspend) == Suspended(1)
    assert stage.dump() == after
    stage.run(_approve(root))
    again = stage.claim(root)
    begin = again.begin()
    assert stage.run(begin) == Begun()
    after = stage.dump()
    assert stage.run(begin) == Begun()
    assert stage.dump() == after


def test_a_stale_fence_neither_asks_nor_begins(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.calling(root, "refund")
    other = attempt.with_fence(attempt.fence.epoch, "another")
    before = stage.dump()
    assert stage.run(other.ask(REFUND)) == Stale()
    assert stage.dump() == before
    stage.run(attempt.ask(REFUND))
    stage.run(_approve(root))
    again = stage.claim(root)
    before = stage.dump()
    assert stage.run(attempt.begin()) == Stale()
    assert stage.run(again.with_fence(again.fence.epoch + 1, again.fence.token).begin()) == Stale()
    assert stage.dump() == before


def test_the_root_s_handle_decides_for_a_grandchild_and_a_sibling_s_does_not(stage: Stage) -> None:
    root = stage.root()
    _, (child, sibling) = stage.waiting(root, 2)
    _, (grandchild,) = stage.waiting(child)
    _asking(stage, root=grandchild)
    for above in (root, child, grandchild):
        pending = stage.run(asking.read_requests(above)).requests
        assert [request.run_id for request in pending] == [grandchild.run_id]
        assert pending[0].agent == "researcher"
    assert stage.run(asking.read_requests(sibling)).requests == ()
    foreign = (sibling, stage.root(), stage.key(stage.new_run().run_id))
    before = stage.dump()
    for above in foreign:
        refused = stage.run(_approve(grandchild, above=above)).refused
        assert refused is DecisionRefusal.UNKNOWN
    assert stage.dump() == before
    assert stage.record(grandchild).pending == 1
    assert _accepted(stage.run(_approve(grandchild, above=root))).run_id == grandchild.run_id


def test_waiters_of_every_ancestor_hear_that_a_human_is_asked(stage: Stage) -> None:
    root = stage.root()
    _, (child,) = stage.waiting(root)
    attempt = stage.calling(child, "refund")
    with stage.server.pubsub(ignore_subscribe_messages=True) as channel:
        channel.subscribe(keys.wake_channel(stage.partition))
        channel.get_message(timeout=30)
        stage.run(attempt.ask(REFUND))
        heard = [channel.get_message(timeout=30)["data"] for _ in range(2)]
    assert heard == [f"{child.run_id} ASKED", f"{root.run_id} ASKED"]
    assert stage.run(reading.read_asked(root)).is_asking
    stage.run(_deny(child, above=root))
    assert not stage.run(reading.read_asked(root)).is_asking


def test_an_unknown_request_is_refused(stage: Stage) -> None:
    root = _asking(stage).run
    for call in (_approve(root, "1:1"), _deny(root, "2:0"), _answer(stage.key(stage.new_run().run_id))):
        assert stage.run(call) == asking.DecisionReply(DecisionRefusal.UNKNOWN, None)


def test_what_nobody_decided_in_time_is_denied_by_the_timer(stage: Stage) -> None:
    root = _asking(stage, REFUND, WHERE).run
    timer = control.timer(root, again_ms=1000)
    assert stage.run(timer) is None
    _expire(stage, root, "1:0")
    seen = len(stage.events(root))
    assert stage.run(timer) is None, "the other call is still open"
    expired = {"iteration": 1, "index": 0, "decision": "expired", "reason": "expired"}
    assert stage.story(root, seen)[0] == ("approval.decided", expired)
    assert stage.record(root).phase == "waiting_input"
    _expire(stage, root, "1:1")
    queued = stage.run(timer)
    assert isinstance(queued, Queued)
    assert queued.wakeup.run_id == root.run_id
    assert stage.due() == {}
    assert stage.run(_approve(root)).refused is DecisionRefusal.EXPIRED
    journal = stage.claim(root).claimed.journal
    assert sorted(journal) == ["1:0", "1:1"]
    assert all(value.startswith('"[DENIED]') and "expired" in value for value in journal.values())


def test_a_request_that_is_out_of_time_is_denied_by_whoever_decides_it(stage: Stage) -> None:
    root = _asking(stage).run
    _expire(stage, root)
    assert stage.run(asking.read_requests(root)).requests == ()
    assert not stage.run(reading.read_asked(root)).is_asking
    reply = stage.run(_approve(root))
    assert reply.refused is DecisionRefusal.EXPIRED
    assert reply.wakeup is not None
    assert stage.claim(root).claimed.decisions == {"1:0": RequestState.EXPIRED}


def test_a_deadline_outlives_a_request_in_the_timer(stage: Stage) -> None:
    root = stage.root(timeout_ms=600_000)
    deadline = stage.due()[root.run_id]
    _asking(stage, root=root)
    assert stage.due()[root.run_id] < deadline
    _expire(stage, root)
    assert isinstance(stage.run(control.timer(root, again_ms=1000)), Queued)
    moved = stage.record(root).deadline_ms
    assert stage.due() == {root.run_id: moved}
    assert moved >= deadline, "it stood still meanwhile"


def test_a_request_does_not_put_off_an_earlier_deadline(stage: Stage) -> None:
    root = stage.root(timeout_ms=30_000)
    deadline = stage.due()[root.run_id]
    _asking(stage, root=root)
    assert stage.due() == {root.run_id: deadline}


def test_a_run_that_is_swept_withdraws_what_it_asked(stage: Stage) -> None:
    root = _asking(stage, REFUND, WHERE, root=stage.root(timeout_ms=600_000)).run
    stage.cancel(root)
    seen = len(stage.events(root))
    stage.sweep(root)
    assert stage.state(root) is SubagentState.CANCELLED
    assert [(kind, data.get("decision")) for kind, data in stage.story(root, seen)] == [
        ("approval.decided", "withdrawn"), ("input.answered", "withdrawn"), ("run.finished", None),
    ]  # fmt: skip
    for call in (_approve(root), _answer(root, "1:1")):
        assert stage.run(call) == asking.DecisionReply(DecisionRefusal.ENDED, None)


def test_after_a_cancel_nothing_is_decided_and_no_approval_used(stage: Stage) -> None:
    root = stage.root()
    _, (child,) = stage.waiting(root)
    _asking(stage, REFUND, WHERE, root=child)
    stage.run(_approve(child, above=root))
    again = stage.claim(child)
    stage.cancel(root)
    assert stage.run(again.begin()) == Stopped("CANCEL")
    assert stage.run(_answer(child, "1:1", by="d2")).refused is DecisionRefusal.CANCELLED
    assert stage.run(asking.read_requests(root)).requests == ()
    assert not stage.run(reading.read_asked(root)).is_asking
    stage.run(again.hand_back())
    stage.sweep(root)
    assert stage.run(_answer(child, "1:1", by="d2")).refused is DecisionRefusal.ENDED
    assert stage.run(again.begin()) == Stale()


def test_a_run_out_of_time_does_not_use_its_approval(stage: Stage) -> None:
    root = _asking(stage, root=stage.root(timeout_ms=600_000)).run
    stage.run(_approve(root))
    again = stage.claim(root)
    stage.expire_deadline(root)
    assert stage.run(again.begin()) == Stopped("DEADLINE")


def test_many_asking_runs_are_read_in_parts(stage: Stage) -> None:
    root = stage.root()
    _, children = stage.waiting(root, 3)
    for child in children:
        _asking(stage, root=child)
    part = asking.read_requests(root)
    assert len(stage.run(part).requests) == 3
    argv = (*part.argv[:5], 2)
    small = ScriptCall(part.script, part.keys, argv, part.parse)
    first = stage.run(small)
    assert [request.run_id for request in first.requests] == [run.run_id for run in children[:2]]
    rest = stage.run(asking.read_requests(root, cursor=first.cursor))
    assert [request.run_id for request in rest.requests] == [children[2].run_id]
    assert rest.cursor == ""


def test_what_was_asked_leaves_no_key_behind(stage: Stage) -> None:
    root = _asking(stage, REFUND, WHERE).run
    stage.run(_approve(root))
    stage.cancel(root)
    stage.sweep(root)
    kept = stage.dump()
    assert [name for name in kept if name.endswith(":ask")] == []
    assert kept[stage.part(root, "run:{}:a")].expires
