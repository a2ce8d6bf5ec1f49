"""What runs ask of a human, through the facade in both colours."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from tests.integration.client.conftest import Facades
from tests.integration.client.store_worker import StoreWorker

from retinue.contract import (
    DecisionRefusal,
    Phase,
    RequestKind,
    SubagentDecision,
    SubagentLifecycleError,
    SubagentState,
)
from retinue.store import keys
from retinue.store.operations.asking import Asked

ARGUMENTS = {"order": 7, "lines": ["a", {"b": None}], "note": 'ü "x"\n'}
REFUND = Asked(RequestKind.APPROVAL, "refund", "call_1", ARGUMENTS, "a" * 64)
WHERE = Asked(RequestKind.INPUT, "where are you", "call_2", {}, "b" * 64)
UNKNOWN = SubagentDecision(accepted=False, reason=DecisionRefusal.UNKNOWN)


def queued(worker: StoreWorker, run_id: str) -> int:
    """How many wake-ups of a run the broker holds."""
    found = [worker.link.execute("LRANGE", "retinue", 0, -1)]
    found += [worker.link.execute("LRANGE", f"retinue\x06\x16{step}", 0, -1) for step in (3, 6, 9)]
    return sum(run_id.encode() in message for messages in found for message in messages)


def test_what_is_asked_is_read_from_any_process(lifecycle: Any, worker: StoreWorker) -> None:
    handle = lifecycle.launch(agent="support", goal="g")
    assert lifecycle.pending(handle) == ()
    worker.ask(handle, REFUND, WHERE)

    first, second = lifecycle.pending(handle.to_dict())
    assert first.to_dict() == {
        "request_id": f"{handle.subagent_id}/1:0",
        "run_id": handle.subagent_id,
        "kind": "approval",
        "agent": "support",
        "tool": "refund",
        "arguments": ARGUMENTS,
        "argument_hash": "a" * 64,
        "call_id": "call_1",
        "asked_at": first.asked_at,
        "expires_at": first.asked_at + 60,
        "audience": "user",
    }
    assert abs(first.asked_at - time.time()) < 60
    assert (second.kind, second.tool, second.arguments) == (RequestKind.INPUT, "where are you", {})
    status = lifecycle.status(handle)
    assert (status.phase, status.pending) == (Phase.WAITING_APPROVAL, 2)
    assert status.to_dict()["pending"] == 2


def test_each_decision_wakes_its_run_through_the_broker(lifecycle: Any, worker: StoreWorker) -> None:
    for asked, decide in (
        (REFUND, lambda handle, request: lifecycle.approve(handle, request)),
        (REFUND, lambda handle, request: lifecycle.deny(handle, request, "no")),
        (WHERE, lambda handle, request: lifecycle.answer(handle, request, ["Münster", 1])),
    ):
        handle = lifecycle.launch(agent="support", goal="g")
        worker.ask(handle, asked)
        before = queued(worker, handle.subagent_id)
        [request] = lifecycle.pending(handle)
        assert decide(handle, request.request_id) == SubagentDecision(accepted=True, reason=None)
        assert queued(worker, handle.subagent_id) == before + 1
        assert lifecycle.status(handle).phase is Phase.QUEUED
        assert lifecycle.approve(handle, request.request_id).reason is DecisionRefusal.DECIDED


def test_a_value_is_read_by_the_model_as_json_and_a_text_as_it_is(
    lifecycle: Any, worker: StoreWorker
) -> None:
    for value, read in (("plain", '"plain"'), ({"ü": [1, None]}, '"{\\"\\u00fc\\": [1, null]}"'), (7, '"7"')):
        handle = lifecycle.launch(agent="support", goal="g")
        worker.ask(handle, WHERE)
        [request] = lifecycle.pending(handle)
        assert lifecycle.answer(handle, request.request_id, value).accepted
        journal = worker.link.execute("HGET", keys.record("_", handle.subagent_id) + ":j", "1:0")
        assert journal.decode() == read


@pytest.mark.parametrize("value", [object(), float("nan"), "x" * 300_000, "\ud800", {"k": b"b"}])
def test_an_answer_that_no_model_can_read_is_refused_with_its_limit(
    lifecycle: Any, worker: StoreWorker, value: object
) -> None:
    handle = lifecycle.launch(agent="support", goal="g")
    worker.ask(handle, WHERE)
    [request] = lifecycle.pending(handle)
    with pytest.raises(SubagentLifecycleError, match="value"):
        lifecycle.answer(handle, request.request_id, value)
    assert len(lifecycle.pending(handle)) == 1


def test_a_reason_that_is_no_text_is_refused_and_a_long_one_cut(lifecycle: Any, worker: StoreWorker) -> None:
    handle = lifecycle.launch(agent="support", goal="g")
    worker.ask(handle, REFUND)
    [request] = lifecycle.pending(handle)
    for reason in (7, "\ud800"):
        with pytest.raises(SubagentLifecycleError, match="reason"):
            lifecycle.deny(handle, request.request_id, reason)
    assert lifecycle.deny(handle, request.request_id, "r" * 600).accepted
    [decided] = [event for event in lifecycle.events(handle) if event.type == "approval.decided"]
    assert decided.data["reason"] == "r" * 500


def test_foreign_and_broken_handles_and_requests_decide_nothing(
    facades: Facades, lifecycle: Any, worker: StoreWorker
) -> None:
    handle = lifecycle.launch(agent="support", goal="g")
    worker.ask(handle, REFUND)
    [request] = lifecycle.pending(handle)
    stranger, other_tenant = facades("somebody-else"), facades(tenant="acme")
    own = stranger.launch(agent="support", goal="g")
    forged = handle.to_dict() | {"subagent_id": own.subagent_id}
    for facade, shown in (
        (stranger, handle), (other_tenant, handle), (stranger, own), (lifecycle, forged),
        (lifecycle, None), (lifecycle, "x"), (lifecycle, {}),
    ):  # fmt: skip
        assert facade.approve(shown, request.request_id) == UNKNOWN
        assert facade.deny(shown, request.request_id) == UNKNOWN
        assert facade.answer(shown, request.request_id, "x") == UNKNOWN
    assert stranger.pending(handle) == other_tenant.pending(handle) == lifecycle.pending(forged) == ()
    for wrong in ("", None, 7, handle.subagent_id, f"{handle.subagent_id}/x", f"{handle.subagent_id}/1:9"):
        assert lifecycle.approve(handle, wrong) == UNKNOWN
    assert len(lifecycle.pending(handle)) == 1
    assert facades.operator().approve(handle, request.request_id).accepted


def test_a_cancel_and_an_end_refuse_what_comes_later(lifecycle: Any, worker: StoreWorker) -> None:
    handle = lifecycle.launch(agent="support", goal="g")
    worker.ask(handle, REFUND)
    [request] = lifecycle.pending(handle)
    lifecycle.cancel(handle)
    assert lifecycle.pending(handle) == ()
    assert lifecycle.approve(handle, request.request_id).reason is DecisionRefusal.ENDED


def test_a_wait_for_a_human_being_asked_returns_when_one_is(lifecycle: Any, worker: StoreWorker) -> None:
    handle = lifecycle.launch(agent="support", goal="g")
    found: list[Any] = []
    waiting = threading.Thread(
        target=lambda: found.append(lifecycle.wait(handle, timeout_seconds=60, until="asked"))
    )
    waiting.start()
    worker.ask(handle, REFUND)
    waiting.join(60)
    [ended] = found
    assert (ended.completed, ended.timed_out, ended.state) == (False, False, SubagentState.RUNNING)
    assert "pending()" in ended.diagnostic
    again = lifecycle.wait(handle, timeout_seconds=0, until="asked")
    assert (again.completed, again.timed_out) == (False, False), "as long as it is asked"
    plain = lifecycle.wait(handle, timeout_seconds=0)
    assert (plain.completed, plain.timed_out) == (False, True)


def test_a_wait_for_a_human_also_ends_with_the_run_or_the_time(lifecycle: Any, worker: StoreWorker) -> None:
    handle = lifecycle.launch(agent="support", goal="g")
    waited = lifecycle.wait(handle, timeout_seconds=0.05, until="asked")
    assert (waited.completed, waited.timed_out) == (False, True)
    worker.complete(handle)
    assert lifecycle.wait(handle, until="asked").state is SubagentState.SUCCEEDED
    assert lifecycle.wait("x", until="asked").completed
    with pytest.raises(SubagentLifecycleError, match="until"):
        lifecycle.wait(handle, until="whenever")
