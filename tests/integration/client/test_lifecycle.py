"""The facade's contract, in both colours and over both servers."""

from __future__ import annotations

import json
import threading
import time
from functools import partial
from typing import Any

import pytest
from tests.integration.client.conftest import Facades
from tests.integration.client.patience import wait_until
from tests.integration.client.store_worker import StoreWorker
from tests.integration.client.tool_parent import ToolParent

from retinue.client import ErrorCode, SteerState, SubagentHandle, SubagentLifecycleError, SubagentState
from retinue.contract import ErrorClassification
from retinue.store.call import CommandCall
from retinue.store.connections.async_subscription import AsyncSubscriptions
from retinue.store.connections.subscription import Subscriptions
from retinue.store.operations import control
from retinue.store.operations.control import NeedsSweep
from retinue.store.replies import Ended


def refusal(call: Any, *args: object, **keywords: object) -> SubagentLifecycleError:
    with pytest.raises(SubagentLifecycleError) as caught:
        call(*args, **keywords)
    return caught.value


def soon(action: Any) -> threading.Timer:
    timer = threading.Timer(0.2, action)
    timer.start()
    return timer


def test_a_launched_run_is_pending_and_its_wake_up_stands_on_the_broker(
    lifecycle: Any, worker: StoreWorker
) -> None:
    before = time.time()
    handle = lifecycle.launch(agent="support", goal="May I return them?", timeout_seconds=60, priority="high")
    status = lifecycle.status(handle)
    assert (status.handle, status.state, status.phase) == (handle, SubagentState.PENDING, "queued")
    assert (status.agent, status.model, status.iteration) == ("support", None, 0)
    assert abs(status.updated_at - before) < 60
    assert (status.limits["max_iterations"], status.limits["max_depth"]) == (50, 4)
    assert status.limits["max_live_children"] == 20
    assert status.limits["deadline_at"] == pytest.approx(handle.created_at + 60, abs=0.01)
    assert (handle.model, handle.provider, handle.role, handle.depth) == ("gpt-5-mini", "openai", "leaf", 0)
    (envelope,) = worker.link.execute("LRANGE", "retinue\x06\x163", 0, -1)
    assert json.loads(envelope)["headers"]["id"] == handle.subagent_id + ".1"
    assert b"return them" not in envelope


def test_a_run_that_no_live_worker_can_run_says_so_from_the_start_and_is_woken_all_the_same(
    lifecycle: Any, worker: StoreWorker
) -> None:
    worker.vanish()
    handle = lifecycle.launch(agent="support", goal="x")
    status = lifecycle.status(handle)
    assert (status.state, status.phase) == (SubagentState.PENDING, "no_worker")
    assert "no live worker" in status.diagnostic
    assert worker.link.execute("LLEN", "retinue\x06\x166") == 1
    worker.complete(handle)
    assert lifecycle.result(handle).terminal_state == SubagentState.SUCCEEDED


def test_a_run_that_was_queued_when_its_last_worker_died_says_so_though_nobody_could_write_it(
    lifecycle: Any, worker: StoreWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retinue.broker.catalogue.CACHE_S", 0.0)
    handle = lifecycle.launch(agent="support", goal="x")
    assert lifecycle.status(handle).phase == "queued"
    resumed = lifecycle.launch(agent="support", goal="y")
    worker.hand_back(resumed, worker.claim(resumed))
    worker.vanish()

    status, other = lifecycle.status(handle), lifecycle.status(resumed)
    assert (status.state, status.phase) == (SubagentState.PENDING, "no_worker")
    assert "no live worker runs the agent 'support'" in status.diagnostic
    assert (other.state, other.phase) == (SubagentState.RUNNING, "queued")
    assert "no live worker" in other.diagnostic
    assert ["no live worker" in each.diagnostic for each in lifecycle.list()] == [True, True]
    for until in ("end", "asked"):
        waited = lifecycle.wait(handle, 0, until=until)
        assert (waited.state, waited.timed_out, waited.diagnostic) == (status.state, True, status.diagnostic)
    for waited in (lifecycle.wait_any([handle, resumed], 0), lifecycle.wait_all([handle, resumed], 0)):
        assert [each.diagnostic for each in waited] == [status.diagnostic, other.diagnostic]

    worker.advertise("support")
    assert lifecycle.wait(handle, 0).diagnostic is None
    assert (lifecycle.status(handle).phase, lifecycle.status(handle).diagnostic) == ("queued", None)
    assert [each.diagnostic for each in lifecycle.list()] == [None, None]


def test_the_status_of_a_running_run_shows_what_was_pinned(lifecycle: Any, worker: StoreWorker) -> None:
    handle = lifecycle.launch(agent="support", goal="x")
    fence = worker.claim(handle)
    assert lifecycle.status(handle).state == SubagentState.STARTING
    worker.record(handle, fence, worker.boundary(handle, fence), tokens=(11, 4))
    status = lifecycle.status(handle)
    assert (status.state, status.iteration) == (SubagentState.RUNNING, 1)
    assert (status.model, status.provider) == ("gpt-5-mini", "openai")
    assert status.limits["max_iterations"] == 7
    assert (status.usage.model_calls, status.usage.input_tokens, status.usage.output_tokens) == (1, 11, 4)


def test_a_foreign_object_has_unknown_usage_and_takes_no_steering(
    lifecycle: Any, worker: StoreWorker
) -> None:
    handle = lifecycle.launch(agent="support", goal="x")
    fence = worker.claim(handle, kind="o")
    assert lifecycle.status(handle).usage is None
    assert lifecycle.send_steer(handle, "faster").state == SteerState.UNSUPPORTED
    worker.finish(handle, fence)
    assert lifecycle.result(handle).usage_metadata == {}


def test_a_result_carries_what_the_run_came_to(lifecycle: Any, worker: StoreWorker) -> None:
    handle = lifecycle.launch(agent="support", goal="x", metadata={"ticket": 9001})
    assert lifecycle.result(handle).error_classification == ErrorClassification.NOT_READY
    fence = worker.claim(handle)
    passed = worker.boundary(handle, fence)
    worker.record(handle, fence, passed, tools=["search_handbook"])
    worker.tool_result(handle, fence, 1, "search_handbook")
    worker.finish(handle, fence, summary="Yes, within 30 days.", payload={"days": 30})
    result = lifecycle.result(handle)
    assert (result.ready, result.terminal_state) == (True, SubagentState.SUCCEEDED)
    assert (result.summary, result.structured_payload) == ("Yes, within 30 days.", {"days": 30})
    assert (result.error_classification, result.error_message) == (None, None)
    assert handle.created_at <= result.started_at <= result.completed_at < time.time() + 5
    assert result.usage_metadata["tools"] == {"search_handbook": 1}
    assert result.tool_execution_summary["tool_calls"] == 1
    assert result.tool_execution_summary["duration_seconds"] == pytest.approx(
        result.completed_at - result.started_at, abs=0.002
    )
    assert result.metadata == {"ticket": 9001}
    assert result.compute_result_hash() == result.result_hash


def test_a_result_is_the_same_each_time_and_for_everybody(facades: Facades, worker: StoreWorker) -> None:
    handle = facades().launch(agent="support", goal="x")
    worker.complete(handle)
    stored = json.loads(json.dumps(handle.to_dict()))
    assert facades().result(stored) == facades().result(handle) == facades.operator().result(stored)


def test_a_failed_run_says_why(lifecycle: Any, worker: StoreWorker) -> None:
    handle = lifecycle.launch(agent="support", goal="x")
    worker.finish(
        handle,
        worker.claim(handle),
        state=SubagentState.FAILED,
        classification=ErrorClassification.MODEL_REJECTED,
        summary=None,
        message="no such model",
    )
    result = lifecycle.result(handle)
    assert (result.terminal_state, result.error_classification) == ("FAILED", "MODEL_REJECTED")
    assert (result.summary, result.error_message) == (None, "no such model")


def test_a_long_summary_is_cut_visibly_and_the_full_text_can_be_fetched(
    lifecycle: Any, worker: StoreWorker
) -> None:
    handle = lifecycle.launch(agent="support", goal="x")
    assert lifecycle.full_text(handle) is None
    worker.complete(handle, summary="long " * 10_000)
    result = lifecycle.result(handle)
    assert result.truncated
    assert len(result.summary) == 32_000
    assert "50,000" in result.summary[-60:]
    assert lifecycle.full_text(handle) == "long " * 10_000


def test_a_run_that_the_store_ended_shows_its_partial_text_and_a_fitting_message(
    lifecycle: Any, worker: StoreWorker
) -> None:
    handle = lifecycle.launch(agent="support", goal="x", timeout_seconds=600)
    fence = worker.claim(handle)
    worker.record(handle, fence, worker.boundary(handle, fence), tools=["run_agent"], partial="So far: yes.")
    worker.suspend(handle, fence, lifecycle.launch(agent="support", goal="waited for").subagent_id)
    worker.expire_deadline(handle)
    assert isinstance(worker.store.run(control.timer(worker.key(handle), again_ms=10)), Ended)
    result = lifecycle.result(handle)
    assert (result.terminal_state, result.error_classification) == ("INTERRUPTED", "DEADLINE_EXCEEDED")
    assert result.summary == lifecycle.full_text(handle) == "So far: yes."
    assert "deadline" in result.error_message


def test_a_steer_is_queued_then_delivered_or_missed(lifecycle: Any, worker: StoreWorker) -> None:
    handle = lifecycle.launch(agent="support", goal="x")
    assert lifecycle.steer(handle, "  from Germany  ") is True
    seen = lifecycle.send_steer(handle, "and soon", steer_id="mine-1")
    assert (seen.steer_id, seen.state) == ("mine-1", SteerState.QUEUED)
    assert lifecycle.send_steer(handle, "and soon", steer_id="mine-1") == seen
    fence = worker.claim(handle)
    passed = worker.boundary(handle, fence)
    assert passed.steers == ["from Germany", "and soon"]
    worker.record(handle, fence, passed)
    delivered = lifecycle.steer_status(handle, "mine-1")
    assert (delivered.state, delivered.iteration) == (SteerState.DELIVERED, 1)
    late = lifecycle.send_steer(handle, "too late")
    worker.finish(handle, fence)
    assert lifecycle.steer_status(handle, late.steer_id).state == SteerState.MISSED
    assert [steer.state for steer in lifecycle.result(handle).steers] == ["delivered", "delivered", "missed"]
    assert lifecycle.steer(handle, "after the end") is False
    assert lifecycle.steer_status(handle, "never sent").state == SteerState.UNKNOWN


@pytest.mark.parametrize("text", ["", " \n", "x" * 32_001, 42, None, "\ud800"])
def test_a_steer_without_proper_text_is_false_and_named_by_the_richer_call(
    lifecycle: Any, text: object
) -> None:
    handle = lifecycle.launch(agent="support", goal="x")
    assert lifecycle.steer(handle, text) is False
    assert refusal(lifecycle.send_steer, handle, text).field == "text"


def test_a_run_takes_so_many_steers_and_no_more(facades: Facades, worker: StoreWorker) -> None:
    lifecycle = facades(max_steers=1)
    handle = lifecycle.launch(agent="support", goal="x")
    assert [lifecycle.steer(handle, "one"), lifecycle.steer(handle, "two")] == [True, False]
    assert refusal(lifecycle.send_steer, handle, "three").code == ErrorCode.CAPACITY_REACHED


def test_a_cancel_ends_a_queued_run_at_once(lifecycle: Any, worker: StoreWorker) -> None:
    handle = lifecycle.launch(agent="support", goal="x")
    answer = lifecycle.cancel(handle, reason="no longer needed " * 100)
    assert (answer.accepted, answer.state) == (True, SubagentState.CANCEL_REQUESTED)
    result = lifecycle.result(handle)
    assert (result.terminal_state, result.error_message) == (
        SubagentState.CANCELLED,
        "the run was cancelled before it finished",
    )
    again = lifecycle.cancel(handle, reason="again")
    assert (again.accepted, again.already_terminal, again.state) == (False, True, SubagentState.CANCELLED)
    requested = [event for event in lifecycle.events(handle) if event.type == "cancel.requested"]
    assert [len(event.data["reason"]) for event in requested] == [500]
    assert refusal(lifecycle.cancel, handle, reason=42).field == "reason"


def test_a_cancel_marks_a_running_run_and_is_accepted_again(lifecycle: Any, worker: StoreWorker) -> None:
    handle = lifecycle.launch(agent="support", goal="x")
    fence = worker.claim(handle)
    assert lifecycle.cancel(handle).accepted
    assert lifecycle.cancel(handle).accepted
    status = lifecycle.status(handle)
    assert (status.state, status.phase) == (SubagentState.CANCEL_REQUESTED, "claimed")
    assert lifecycle.wait(handle, timeout_seconds=0).state == SubagentState.CANCEL_REQUESTED
    assert lifecycle.result(handle).terminal_state == SubagentState.CANCEL_REQUESTED
    assert lifecycle.steer(handle, "late") is False
    worker.finish(handle, fence, state=SubagentState.CANCELLED)
    assert lifecycle.status(handle).state == SubagentState.CANCELLED


def test_a_cancel_sweeps_the_subtree_in_chunks(lifecycle: Any, facades: Facades, worker: StoreWorker) -> None:
    handle = lifecycle.launch(agent="support", goal="x")
    fence = worker.claim(handle)
    worker.record(handle, fence, worker.boundary(handle, fence), tools=["fan_out"])
    tool = facades.of_parent(ToolParent(handle, fence))
    children = [child for _ in range(2) for child in tool.launch_many([{"goal": "y"}] * 10)]
    grand = [facades.of_parent(ToolParent(child, worker.claim(child), depth=1)) for child in children[:3]]
    nested = [child for inner in grand for child in inner.launch_many([{"goal": "z"}] * 17)]
    assert lifecycle.cancel(handle).accepted
    states = [lifecycle.status(child).state for child in (*children[3:], *nested)]
    assert set(states) == {SubagentState.CANCELLED}
    assert {lifecycle.status(child).state for child in children[:3]} == {SubagentState.CANCEL_REQUESTED}


def test_a_handle_leads_to_its_run_from_anywhere(facades: Facades, worker: StoreWorker) -> None:
    handle = facades().launch(agent="support", goal="x")
    stored = json.loads(json.dumps(handle.to_dict()))
    assert facades().reconnect(stored).connected
    assert facades().status(stored).handle == handle
    worker.complete(handle)
    assert facades().reconnect(stored).state == SubagentState.SUCCEEDED


def bad_handles(genuine: SubagentHandle) -> dict[str, object]:
    fields = genuine.to_dict()
    capability = genuine.capability
    return {
        "none": None,
        "number": 42,
        "text": genuine.subagent_id,
        "empty": {},
        "partial": {key: fields[key] for key in list(fields)[:4]},
        "extra": {**fields, "more": 1},
        "altered depth": {**fields, "depth": 3},
        "altered model": {**fields, "model": "other"},
        "other version": {**fields, "contract_version": 2},
        "boolean version": {**fields, "contract_version": True},
        "truncated": {**fields, "capability": capability[:-4]},
        "unknown key": {**fields, "capability": capability.replace(".k1.", ".k9.")},
        "no mac": {**fields, "capability": "v1"},
        "surrogate": {**fields, "capability": "v1.k1.\ud800"},
        "other run": {**fields, "subagent_id": "sa-p07-" + "a" * 26},
        "wrong type": {**fields, "created_at": "now"},
        "list": [fields],
    }


def assert_unknown(facade: Any, handle: object) -> None:
    status = facade.status(handle)
    assert (status.state, status.diagnostic) == (SubagentState.UNKNOWN, "UNKNOWN_HANDLE")
    end = facade.wait(handle, timeout_seconds=60)
    assert (end.completed, end.timed_out, end.diagnostic) == (True, False, "UNKNOWN_HANDLE")
    result = facade.result(handle)
    assert (result.ready, result.error_classification) == (False, "UNKNOWN_HANDLE")
    assert facade.full_text(handle) is None
    assert facade.steer(handle, "hello") is False
    assert facade.send_steer(handle, "hello").state == SteerState.UNKNOWN
    assert facade.steer_status(handle, "x").state == SteerState.UNKNOWN
    cancelled = facade.cancel(handle, reason="x")
    assert (cancelled.accepted, cancelled.unknown_handle) == (False, True)
    reconnected = facade.reconnect(handle)
    assert (reconnected.connected, reconnected.diagnostic) == (False, "RECONNECT_UNAVAILABLE")


def test_a_bad_handle_never_raises(lifecycle: Any) -> None:
    genuine = lifecycle.launch(agent="support", goal="x")
    for handle in bad_handles(genuine).values():
        assert_unknown(lifecycle, handle)
        if not isinstance(handle, str):
            assert list(lifecycle.events(handle)) == []
            assert lifecycle.tree(handle) == ()
    assert lifecycle.status(genuine).state == SubagentState.PENDING


def test_another_session_or_tenant_gets_the_unknown_answers_and_an_operator_does_not(
    facades: Facades, worker: StoreWorker
) -> None:
    handle = facades().launch(agent="support", goal="x")
    for stranger in (facades("other"), facades(tenant="acme"), facades(None), facades.operator("acme")):
        assert_unknown(stranger, handle)
        assert list(stranger.events(handle)) == []
        assert list(stranger.events(handle.subagent_id)) == []
    operator = facades.operator()
    assert operator.status(handle).state == SubagentState.PENDING
    assert [event.type for event in operator.events(handle.subagent_id)] == ["run.created"]
    assert operator.cancel(handle, reason="by the operator").accepted


def test_an_expired_run_is_unknown(facades: Facades, worker: StoreWorker) -> None:
    lifecycle = facades()
    handle = lifecycle.launch(agent="support", goal="x", correlation_id="once")
    worker.complete(handle)
    worker.link.execute("DEL", worker.key(handle).record)
    assert_unknown(lifecycle, handle)
    assert lifecycle.list() == ()


def test_nobody_without_a_session_or_a_parent_launches(facades: Facades, worker: StoreWorker) -> None:
    for nobody in (facades(None), facades.operator()):
        error = refusal(nobody.launch, agent="support", goal="x")
        assert (error.code, error.field) == (ErrorCode.NO_PARENT, "session_id")
    assert refusal(facades, "a{b}").field == "session_id"
    assert refusal(facades, tenant="a:b").field == "tenant"


def test_a_launch_takes_a_request_a_mapping_or_keywords_and_nothing_else(lifecycle: Any) -> None:
    from retinue.client import SubagentLaunchRequest

    for request in (SubagentLaunchRequest(agent="support", goal="x"), {"agent": "support", "goal": "x"}):
        assert lifecycle.launch(request).subagent_id
    assert "int" in str(refusal(lifecycle.launch, 42))
    assert refusal(lifecycle.launch, goal="x", gaol="y").field == "gaol"
    assert refusal(lifecycle.launch, goal=" ").field == "goal"
    assert refusal(lifecycle.launch, goal="x", parent_session_id="other").field == "parent_session_id"


def test_an_unknown_name_is_refused_before_anything_is_written(lifecycle: Any, worker: StoreWorker) -> None:
    error = refusal(lifecycle.launch, agent="suport", goal="x")
    assert error.code == ErrorCode.UNKNOWN_AGENT
    assert "'support'" in str(error)
    assert "researcher" in str(error.limit)
    for field, code in (
        ({"provider": "nobody"}, ErrorCode.UNKNOWN_PROVIDER),
        ({"allowed_toolsets": ["nothing"]}, ErrorCode.UNKNOWN_TOOLSET),
    ):
        assert refusal(lifecycle.launch, goal="x", agent="support", **field).code == code
    assert lifecycle.list() == ()
    assert worker.link.execute("LLEN", "retinue\x06\x166") == 0


def test_a_name_that_was_advertised_a_moment_ago_is_known(facades: Facades) -> None:
    worker = StoreWorker(facades.url)
    try:
        lifecycle = facades()
        assert refusal(lifecycle.launch, agent="support", goal="x").code == ErrorCode.NO_WORKER
        worker.advertise("support")
        assert lifecycle.launch(agent="support", goal="x").model is None
        worker.advertise("researcher")
        assert lifecycle.launch(agent="researcher", goal="x").subagent_id
    finally:
        worker.close()


def test_a_correlation_id_is_taken_once(facades: Facades, worker: StoreWorker) -> None:
    lifecycle = facades()
    first = lifecycle.launch(agent="support", goal="x", correlation_id="ticket-1")
    assert first.correlation_id == "ticket-1"
    error = refusal(lifecycle.launch, agent="support", goal="x", correlation_id="ticket-1")
    assert error.code == ErrorCode.DUPLICATE_CORRELATION
    assert first.subagent_id in str(error)
    same = facades().launch(agent="support", goal="x", correlation_id="ticket-1", on_duplicate="return")
    assert same == first
    error = refusal(
        lifecycle.launch, agent="support", goal="y", correlation_id="ticket-1", on_duplicate="return"
    )
    assert error.code == ErrorCode.CORRELATION_CONFLICT
    other = facades("other").launch(agent="support", goal="x", correlation_id="ticket-1")
    assert other.subagent_id != first.subagent_id
    assert len(lifecycle.list()) == 1


def test_many_are_launched_in_order_all_or_none(lifecycle: Any) -> None:
    goals = [{"agent": "support", "goal": f"goal {n}", "correlation_id": f"c{n}"} for n in range(100)]
    handles = lifecycle.launch_many(goals)
    assert [handle.correlation_id for handle in handles] == [f"c{n}" for n in range(100)]
    assert len(lifecycle.list(limit=1000)) == 100
    error = refusal(lifecycle.launch_many, [{"agent": "support", "goal": "new"}, goals[5]])
    assert error.code == ErrorCode.DUPLICATE_CORRELATION
    assert refusal(lifecycle.launch_many, []).field == "requests"
    assert refusal(lifecycle.launch_many, [{"goal": "x"}] * 101).limit == "1 to 100"
    assert refusal(lifecycle.launch_many, [{"goal": "x"}, {"goal": ""}]).field == "requests[1].goal"
    assert len(lifecycle.list(limit=1000)) == 100


def test_many_may_return_the_runs_that_exist_already(lifecycle: Any) -> None:
    def ask(n: int) -> dict[str, object]:
        return {"agent": "support", "goal": f"goal {n}", "correlation_id": f"c{n}", "on_duplicate": "return"}

    first = lifecycle.launch_many([ask(1), ask(3)])
    again = lifecycle.launch_many([ask(1), ask(2), ask(3), ask(2)])
    assert (again[0], again[2]) == first
    assert again[1] == again[3]
    assert len(lifecycle.list()) == 3
    twice = [{"goal": "x", "correlation_id": "d"}, {"goal": "y", "correlation_id": "d"}]
    assert refusal(lifecycle.launch_many, twice).field == "requests[1].correlation_id"


def test_a_wait_ends_with_the_run(
    lifecycle: Any, worker: StoreWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retinue.client.clock.SAFETY_READ_S", 60)
    handle = lifecycle.launch(agent="support", goal="x")
    started = time.monotonic()
    timer = soon(lambda: worker.complete(handle))
    end = lifecycle.wait(handle)
    assert (end.completed, end.timed_out, end.state) == (True, False, SubagentState.SUCCEEDED)
    assert 0.1 < time.monotonic() - started < 30  # by the message: the next safety read is a minute away
    timer.join()
    assert lifecycle.wait(handle, timeout_seconds=0).completed


def test_a_wait_that_times_out_says_so_and_the_run_goes_on(lifecycle: Any) -> None:
    handle = lifecycle.launch(agent="support", goal="x")
    for timeout in (0, 0.05, 1):
        end = lifecycle.wait(handle, timeout_seconds=timeout)
        assert (end.completed, end.timed_out, end.state) == (False, True, SubagentState.PENDING)


@pytest.mark.parametrize("timeout", [float("nan"), -1, -0.001, float("-inf"), True, "5", [1]])
def test_a_wait_for_no_number_of_seconds_is_refused(lifecycle: Any, timeout: object) -> None:
    handle = lifecycle.launch(agent="support", goal="x")
    for call, given in ((lifecycle.wait, handle), (lifecycle.wait_any, [handle]), (lifecycle.wait_all, [])):
        assert refusal(call, given, timeout_seconds=timeout).field == "timeout_seconds"
    assert refusal(lifecycle.run, agent="support", goal="x", wait_seconds=timeout).field == "wait_seconds"
    assert len(lifecycle.list()) == 1


def test_waiting_for_any_ends_with_the_first(lifecycle: Any, worker: StoreWorker) -> None:
    handles = lifecycle.launch_many([{"agent": "support", "goal": "x"}] * 5)
    timer = soon(lambda: worker.complete(handles[3]))
    ends = lifecycle.wait_any(handles, timeout_seconds=60)
    timer.join()
    assert [end.completed for end in ends] == [False, False, False, True, False]
    assert not any(end.timed_out for end in ends)
    assert [end.handle for end in ends] == list(handles)
    assert all(end.timed_out for end in lifecycle.wait_any(handles[:2], timeout_seconds=0.05))
    assert [end.completed for end in lifecycle.wait_any([handles[0], {}])] == [False, True]
    assert lifecycle.wait_any([]) == ()


def test_an_operator_waits_for_runs_of_several_partitions(
    facades: Facades, worker: StoreWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The connection's own signs of life must not be what lets it notice further channels.
    rare = {"ping_every_s": 600.0, "linger_s": 600.0}
    monkeypatch.setattr("retinue.client.dispatch.connections.Subscriptions", partial(Subscriptions, **rare))
    monkeypatch.setattr(
        "retinue.client.dispatch.async_connections.AsyncSubscriptions", partial(AsyncSubscriptions, **rare)
    )
    handles = [facades(f"s{n}").launch(agent="support", goal="x") for n in range(4)]
    partitions = {handle.subagent_id[4:6] for handle in handles}
    assert len(partitions) > 1
    operator = facades.operator()
    operator.wait(handles[0], timeout_seconds=0.02)  # so that a connection with one channel is there already
    ends: list[Any] = []
    waiter = threading.Thread(target=lambda: ends.append(operator.wait_any(handles, timeout_seconds=60)))
    waiter.start()
    channels = [f"retinue:{{p{partition}}}:wake" for partition in partitions]
    wait_until(lambda: worker.link.execute("PUBSUB", "NUMSUB", *channels)[1::2] == [1] * len(channels))
    worker.complete(handles[3])
    waiter.join(60)
    assert [end.completed for end in ends[0]] == [False, False, False, True]


def test_waiting_for_all_ends_with_the_last(lifecycle: Any, worker: StoreWorker) -> None:
    handles = lifecycle.launch_many([{"agent": "support", "goal": "x"}] * 3)
    assert [end.timed_out for end in lifecycle.wait_all(handles, timeout_seconds=0.1)] == [True] * 3
    timer = soon(lambda: [worker.complete(handle) for handle in reversed(handles)])
    ends = lifecycle.wait_all(handles, timeout_seconds=60)
    timer.join()
    assert [end.state for end in ends] == [SubagentState.SUCCEEDED] * 3


def test_waiting_for_more_runs_than_one_look_takes_answers_for_each_in_order(
    lifecycle: Any, worker: StoreWorker
) -> None:
    handles = [
        handle for _ in range(2) for handle in lifecycle.launch_many([{"agent": "support", "goal": "x"}] * 70)
    ]
    for handle in handles[:-1]:
        worker.complete(handle)
    given = [*handles, {}, handles[0]]
    ends = lifecycle.wait_all(given, timeout_seconds=0.05)
    assert [end.timed_out for end in ends] == [False] * 139 + [True, False, False]
    assert [end.handle for end in ends] == [*handles, None, handles[0]]
    timer = soon(lambda: worker.complete(handles[-1]))
    assert all(end.completed for end in lifecycle.wait_all(given, timeout_seconds=60))
    timer.join()
    results = lifecycle.results(given)
    assert [result.handle for result in results] == [*handles, None, handles[0]]
    assert [result.ready for result in results] == [True] * 140 + [False, True]


def test_several_results_are_those_that_result_gives_one_by_one(lifecycle: Any, worker: StoreWorker) -> None:
    handles = lifecycle.launch_many(
        [{"agent": "support", "goal": "x", "metadata": {"n": n}} for n in range(4)]
    )
    foreign = worker.claim(handles[0], kind="o")
    worker.finish(handles[0], foreign, summary="by an object")
    fence = worker.claim(handles[1])
    worker.record(handles[1], fence, worker.boundary(handles[1], fence), tools=["search_handbook"])
    worker.tool_result(handles[1], fence, 1, "search_handbook")
    worker.finish(handles[1], fence, summary="by a model")
    lifecycle.cancel(handles[2])
    results = lifecycle.results(handles)
    assert results == tuple(lifecycle.result(handle) for handle in handles)
    states = [
        SubagentState.SUCCEEDED,
        SubagentState.SUCCEEDED,
        SubagentState.CANCELLED,
        SubagentState.PENDING,
    ]
    assert [result.terminal_state for result in results] == states
    assert [result.metadata for result in results[:3]] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert results[1].usage_metadata["tools"] == {"search_handbook": 1}
    assert lifecycle.results([]) == ()


def test_a_run_in_one_call_gives_the_result(lifecycle: Any, worker: StoreWorker) -> None:
    def finish_the_newest() -> None:
        wait_until(lifecycle.list)
        worker.complete(lifecycle.list()[0].handle, summary="answered")

    timer = soon(finish_the_newest)
    assert lifecycle.run(agent="support", goal="x", wait_seconds=60).summary == "answered"
    timer.join()
    assert not lifecycle.run({"agent": "support", "goal": "x"}, wait_seconds=0.05).ready


def test_a_list_shows_the_roots_newest_first_page_by_page(facades: Facades, worker: StoreWorker) -> None:
    lifecycle = facades()
    handles = []
    for n in range(5):
        handles.append(lifecycle.launch(agent="support", goal=f"{n}"))
        time.sleep(0.002)  # the list is in order of the server's milliseconds
    newest = list(reversed(handles))
    assert [status.handle for status in lifecycle.list()] == newest
    assert [status.handle for status in lifecycle.list(offset=1, limit=2)] == newest[1:3]
    assert lifecycle.list(offset=5) == ()
    assert facades("other").list() == ()
    assert len(facades.operator().list(session_id="customer-42")) == 5
    assert refusal(facades("other").list, session_id="customer-42").field == "session_id"
    assert refusal(facades.operator().list).field == "session_id"
    assert refusal(lifecycle.list, limit=0).field == "limit"
    assert refusal(lifecycle.list, offset=-1).field == "offset"


def test_a_page_is_full_although_runs_before_it_have_expired(facades: Facades, worker: StoreWorker) -> None:
    lifecycle = facades()
    handles = []
    for n in range(6):
        handles.append(lifecycle.launch(agent="support", goal=f"{n}"))
        time.sleep(0.002)  # the list is in order of the server's milliseconds
    for handle in handles[3:5]:
        worker.complete(handle)
        worker.store.run(CommandCall(("DEL", worker.key(handle).record), int))
    assert [status.handle for status in lifecycle.list(limit=2)] == [handles[5], handles[2]]
    assert [status.handle for status in lifecycle.list(offset=2, limit=2)] == [handles[1], handles[0]]


def test_events_are_read_from_any_place_on(lifecycle: Any, worker: StoreWorker) -> None:
    handle = lifecycle.launch(agent="support", goal="x")
    worker.complete(handle)
    types = [event.type for event in lifecycle.events(handle)]
    assert types == ["run.created", "run.started", "model.started", "model.finished", "run.finished"]
    assert [event.sequence for event in lifecycle.events(handle, after=3)] == [4, 5]
    assert [event.sequence for event in lifecycle.events(handle.subagent_id, after=5)] == []
    for after in (-1, True, "1", None):
        assert refusal(lifecycle.events, handle, after=after).field == "after"


def test_events_are_followed_until_the_end_of_the_run(lifecycle: Any, worker: StoreWorker) -> None:
    handle = lifecycle.launch(agent="support", goal="x")
    events = lifecycle.events(handle, follow=True)
    assert next(events).type == "run.created"
    timer = soon(lambda: worker.complete(handle))
    assert [event.type for event in events][-1] == "run.finished"
    timer.join()
    assert [event.type for event in lifecycle.events(handle, after=4, follow=True)] == ["run.finished"]


def test_a_long_log_is_read_in_parts(lifecycle: Any, worker: StoreWorker) -> None:
    handle = lifecycle.launch(agent="support", goal="x")
    log = worker.key(handle).record.replace("run:", "tree:") + ":ev"
    queued = json.dumps({"e": "steer.queued", "r": handle.subagent_id, "t": 1, "steer": "s"})
    worker.link.execute("RPUSH", log, *[queued] * 2_500)
    assert [event.sequence for event in lifecycle.events(handle)] == list(range(1, 2_502))


def test_a_tree_shows_each_run_under_its_parent(
    lifecycle: Any, facades: Facades, worker: StoreWorker
) -> None:
    root = lifecycle.launch(agent="support", goal="x")
    fence = worker.claim(root)
    worker.record(root, fence, worker.boundary(root, fence), tools=["fan_out"])
    tool = facades.of_parent(ToolParent(root, fence))
    first, second = tool.launch_many([{"agent": "researcher", "goal": "y"}] * 2)
    inner = facades.of_parent(ToolParent(first, worker.claim(first), depth=1))
    grandchild = inner.launch(agent="support", goal="z")
    worker.complete(second)
    worker.link.execute("DEL", worker.key(second).record)
    nodes = lifecycle.tree(root)
    assert [(node.run_id, node.parent_id, node.depth) for node in nodes] == [
        (root.subagent_id, None, 0),
        (first.subagent_id, root.subagent_id, 1),
        (grandchild.subagent_id, first.subagent_id, 2),
        (second.subagent_id, root.subagent_id, 1),
    ]
    assert [node.state for node in nodes] == ["RUNNING", "STARTING", "PENDING", "SUCCEEDED"]
    assert [node.phase for node in nodes] == ["tool_call", "claimed", "queued", ""]
    assert [node.agent for node in nodes] == ["support", "researcher", "support", "researcher"]
    # Its record has expired; the events still know.
    assert (nodes[3].usage.model_calls, nodes[3].usage.input_tokens) == (1, 5)
    assert [node.run_id for node in lifecycle.tree(first)] == [first.subagent_id, grandchild.subagent_id]


def test_an_unfinished_sweep_is_left_to_the_reaper(lifecycle: Any, worker: StoreWorker) -> None:
    handle = lifecycle.launch(agent="support", goal="x")
    worker.claim(handle)
    lifecycle.cancel(handle)
    assert worker.store.run(control.timer(worker.key(handle), again_ms=10)) == NeedsSweep()
