"""Steering and cancelling runs, their deadlines and limits, and models that fail."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.run_rig import RunRig, count_states, of_kind, run_rig

from retinue.broker.app import create_app
from retinue.client import SubagentLifecycle
from retinue.contract import (
    ErrorClassification,
    EventType,
    Phase,
    SteerState,
    SubagentHandle,
    SubagentState,
    task_id,
)
from retinue.testing.faults import CutStream, rate_limited, server_error
from retinue.testing.request import ScriptedRequest
from retinue.testing.scripts import Script

GOES_ON_S = 30.0
"""By when what is in flight has been dropped; by itself it would go on for ever."""


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    """A worker with four slots that serves the default queue only, and patience for three model calls."""
    directory: Path = tmp_path_factory.mktemp("control")
    with run_rig(directory, agents="control_agents", model_max_attempts=3) as rig:
        rig.worker(concurrency=4, queues=["retinue"])
        yield rig


@pytest.fixture
def lifecycle(rig: RunRig) -> SubagentLifecycle:
    """A client."""
    return rig.lifecycle()


def script(rig: RunRig, agent: str, word: str) -> Script:
    """What the agent's model says in runs with this word in their goal."""
    return rig.model.script(agent, when=lambda request: word in request.messages[0].text)


def requests(rig: RunRig, word: str) -> list[ScriptedRequest]:
    """What the model was asked in runs with this word in their goal."""
    found = [recorded.request for recorded in rig.model.requests()]
    return [request for request in found if request and word in request.messages[0].text]


def wait_for_requests(rig: RunRig, word: str, count: int) -> None:
    """Returns once so many requests have arrived."""
    rig.model.wait_for(lambda _: len(requests(rig, word)) >= count, timeout_s=30)


def roles(request: ScriptedRequest) -> list[str]:
    """Who wrote each message after the system prompt."""
    return [message["role"] for message in request.body["messages"] if message["role"] != "system"]


def test_a_steer_is_seen_at_the_next_boundary_exactly_once(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    script(rig, "hand", "steer-next").call("append", {"line": "a"}).hold("steer-next").then().call(
        "append", {"line": "b"}
    ).then("done")
    handle = lifecycle.launch(agent="hand", goal="steer-next")
    wait_for_requests(rig, "steer-next", 1)

    receipt = lifecycle.send_steer(handle, "Mind the customer.")
    assert receipt.state is SteerState.QUEUED
    rig.model.release("steer-next")
    result = rig.result(lifecycle, handle)

    first, second, third = requests(rig, "steer-next")
    assert roles(first) == ["user"]
    assert roles(second) == ["user", "assistant", "tool", "user"]
    assert second.last_user == "Mind the customer."
    assert roles(third) == ["user", "assistant", "tool", "user", "assistant", "tool"]
    assert json.dumps(third.body).count("Mind the customer.") == 1
    [delivered] = result.steers
    assert delivered == lifecycle.steer_status(handle, receipt.steer_id)
    assert (delivered.state, delivered.iteration) == (SteerState.DELIVERED, 2)
    [event] = of_kind(list(lifecycle.events(handle)), EventType.STEER_DELIVERED)
    assert event.data == {"steer": receipt.steer_id, "iteration": 2}


def test_a_run_that_would_end_goes_on_for_a_steer(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    script(rig, "hand", "steer-end").say("first answer").hold("steer-end").then("second answer")
    handle = lifecycle.launch(agent="hand", goal="steer-end")
    wait_for_requests(rig, "steer-end", 1)

    assert lifecycle.steer(handle, "And in Germany?")
    rig.model.release("steer-end")
    result = rig.result(lifecycle, handle)

    assert result.summary == "second answer"
    assert roles(requests(rig, "steer-end")[1]) == ["user", "assistant", "user"]
    assert [(steer.state, steer.iteration) for steer in result.steers] == [(SteerState.DELIVERED, 2)]


def test_a_steer_to_a_suspended_parent_waits_for_its_children(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "boss", "steer-parent").call("run_agent", {"name": "hand", "task": "steer-child"}).then(
        "done"
    )
    script(rig, "hand", "steer-child").say("child done").hold("steer-child")
    handle = lifecycle.launch(agent="boss", goal="steer-parent")
    rig.wait_for_event(lifecycle, handle, EventType.RUN_SUSPENDED)

    assert lifecycle.steer(handle, "Be brief.")
    assert lifecycle.status(handle).phase is Phase.WAITING_CHILDREN
    rig.model.release("steer-child")
    rig.result(lifecycle, handle)

    assert roles(requests(rig, "steer-parent")[1]) == ["user", "assistant", "tool", "user"]


def test_a_steer_before_the_run_starts_is_in_its_first_request(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "hand", "steer-early").say("done")
    rig.workers[0].pause()
    try:
        handle = lifecycle.launch(agent="hand", goal="steer-early")
        assert lifecycle.steer(handle, "One.")
        assert lifecycle.steer(handle, "Two.")
        assert lifecycle.status(handle).state is SubagentState.PENDING
    finally:
        rig.workers[0].resume()
    result = rig.result(lifecycle, handle)

    [only] = requests(rig, "steer-early")
    assert [message.text for message in only.messages] == ["steer-early", "One.", "Two."]
    assert [(steer.state, steer.iteration) for steer in result.steers] == [(SteerState.DELIVERED, 1)] * 2


def test_a_steer_that_comes_too_late_is_told_as_missed(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    script(rig, "hand", "steer-late").say("the answer").hold("steer-late")
    handle = lifecycle.launch(agent="hand", goal="steer-late", max_iterations=1)
    wait_for_requests(rig, "steer-late", 1)

    receipt = lifecycle.send_steer(handle, "Too late.")
    rig.model.release("steer-late")
    result = rig.result(lifecycle, handle)

    assert (result.terminal_state, result.summary) == (SubagentState.SUCCEEDED, "the answer")
    assert [(steer.steer_id, steer.state) for steer in result.steers] == [
        (receipt.steer_id, SteerState.MISSED)
    ]
    assert not lifecycle.steer(handle, "Even later.")


def test_an_object_cannot_be_steered_and_a_cancel_cancels_its_task(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    handle = lifecycle.launch(agent="sleeper", goal="nap")
    rig.wait_for_trace("nap.started")

    assert lifecycle.send_steer(handle, "Wake up.").state is SteerState.UNSUPPORTED
    assert not lifecycle.steer(handle, "Wake up.")
    assert lifecycle.cancel(handle).state is SubagentState.CANCEL_REQUESTED
    result = rig.result(lifecycle, handle)

    assert result.terminal_state is SubagentState.CANCELLED
    assert rig.trace("nap.cancelled").exists()
    assert lifecycle.status(handle).usage is None


def test_cancelling_the_root_ends_the_tree_and_no_further_request_leaves(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    fan_out = script(rig, "boss", "fan-root")
    for number in range(8):
        fan_out.call("run_agent", {"name": "hand", "task": f"fan-child {number}"})
    fan_out.then("never")
    script(rig, "hand", "fan-child").say("never").hold("fan")
    handle = lifecycle.launch(agent="boss", goal="fan-root")
    rig.wait_for_event(lifecycle, handle, EventType.RUN_SUSPENDED)
    # Four slots: four children ask, four are queued.
    wait_for_requests(rig, "fan-child", 4)

    answer = lifecycle.cancel(handle, "changed my mind")
    acknowledged = time.time()
    result = rig.result(lifecycle, handle)

    assert (answer.accepted, answer.state) == (True, SubagentState.CANCEL_REQUESTED)
    assert result.terminal_state is SubagentState.CANCELLED
    rig.model.wait_for(lambda model: model.in_flight() == 0, timeout_s=GOES_ON_S)
    dropped = [r for r in rig.model.requests("hand") if r.request and "fan-child" in r.request.last_user]
    assert [r.disconnected for r in dropped] == [True] * 4
    rig.wait_until(lambda: count_states(lifecycle.tree(handle)) == {"CANCELLED": 9}, "all are cancelled")
    assert not [r for r in rig.model.requests() if r.started_at > acknowledged]
    events = list(lifecycle.events(handle))
    assert len(of_kind(events, EventType.RUN_STARTED)) == 5
    [cancelled] = of_kind(events, EventType.CANCEL_REQUESTED)
    assert cancelled.data == {"kind": "cancel", "reason": "changed my mind"}
    assert lifecycle.cancel(handle).already_terminal
    assert not lifecycle.steer(handle, "Too late.")


def test_after_a_cancel_in_a_storm_of_launches_no_boundary_passes(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    storm = script(rig, "boss", "storm-root")
    for number in range(15):
        storm.call("run_agent", {"name": "hand", "task": f"storm-child {number}"})
    storm.then("never")
    script(rig, "hand", "storm-child").call("append", {"line": "storm"}).repeat_last()
    handle = lifecycle.launch(agent="boss", goal="storm-root")
    wait_for_requests(rig, "storm-child", 3)

    lifecycle.cancel(handle)
    rig.wait_until(lambda: set(count_states(lifecycle.tree(handle))) == {"CANCELLED"}, "all are cancelled")

    kinds = [event.type for event in lifecycle.events(handle)]
    after = set(kinds[kinds.index(EventType.CANCEL_REQUESTED) :])
    assert after.isdisjoint({EventType.MODEL_STARTED, EventType.RUN_CREATED, EventType.RUN_STARTED})


def test_the_parent_of_a_cancelled_child_is_told_and_goes_on(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "boss", "one-child").call("send_out", {"task": "lone-child"}).then("I heard: ${results}")
    script(rig, "hand", "lone-child").say("never").hold("lone-child")
    handle = lifecycle.launch(agent="boss", goal="one-child")
    child = SubagentHandle.from_dict(json.loads(rig.wait_for_trace("lone-child.handle")))
    wait_for_requests(rig, "lone-child", 1)

    assert lifecycle.cancel(child).accepted
    result = rig.result(lifecycle, handle)

    assert result.summary == "I heard: the hand ended CANCELLED"
    assert lifecycle.status(child).state is SubagentState.CANCELLED


def revoke(rig: RunRig, run_id: str, *, terminate: bool, wakeup: int = 1) -> None:
    """Revokes a task as `celery control` and Flower do."""
    app = create_app(rig.settings)
    try:
        [reply] = app.control.revoke(
            task_id(run_id, wakeup), terminate=terminate, reply=True, timeout=10, limit=1
        )
    finally:
        app.close()
    assert all("ok" in answer for answer in reply.values())


TERMINATE = pytest.mark.parametrize("terminate", [False, True], ids=["plain", "terminate"])


@TERMINATE
def test_revoking_the_task_of_a_running_run_cancels_it(
    rig: RunRig, lifecycle: SubagentLifecycle, terminate: bool
) -> None:
    word = f"revoke-running-{terminate}"
    script(rig, "hand", word).say("never").hold(word)
    handle = lifecycle.launch(agent="hand", goal=word)
    wait_for_requests(rig, word, 1)

    revoke(rig, handle.subagent_id, terminate=terminate)

    assert rig.result(lifecycle, handle).terminal_state is SubagentState.CANCELLED
    rig.model.wait_for(lambda model: model.in_flight() == 0, timeout_s=GOES_ON_S)


@TERMINATE
def test_revoking_the_task_of_a_queued_run_cancels_it(
    rig: RunRig, lifecycle: SubagentLifecycle, terminate: bool
) -> None:
    handle = lifecycle.launch(agent="faraway", goal="never starts")
    assert lifecycle.status(handle).phase is Phase.QUEUED

    revoke(rig, handle.subagent_id, terminate=terminate)

    result = rig.result(lifecycle, handle)
    assert (result.terminal_state, result.started_at) == (SubagentState.CANCELLED, None)


@TERMINATE
def test_revoking_the_first_task_of_a_suspended_run_cancels_it_and_its_children(
    rig: RunRig, lifecycle: SubagentLifecycle, terminate: bool
) -> None:
    word = f"revoke-suspended-{terminate}"
    script(rig, "boss", word).call("run_agent", {"name": "hand", "task": f"child of {word}"}).then("never")
    script(rig, "hand", f"child of {word}").say("never").hold(word)
    handle = lifecycle.launch(agent="boss", goal=word)
    rig.wait_for_event(lifecycle, handle, EventType.RUN_SUSPENDED)
    wait_for_requests(rig, f"child of {word}", 1)

    revoke(rig, handle.subagent_id, terminate=terminate)

    assert rig.result(lifecycle, handle).terminal_state is SubagentState.CANCELLED
    rig.wait_until(lambda: count_states(lifecycle.tree(handle)) == {"CANCELLED": 2}, "both are cancelled")


def test_revoking_a_childs_task_tells_its_suspended_parent(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    script(rig, "boss", "revoke-root").call("run_agent", {"name": "hand", "task": "revoke-child"}).call(
        "run_agent", {"name": "hand", "task": "spared-child"}
    ).then("I heard: ${results}")
    script(rig, "hand", "revoke-child").say("never").hold("revoke-child")
    script(rig, "hand", "spared-child").say("all is well")
    handle = lifecycle.launch(agent="boss", goal="revoke-root")
    wait_for_requests(rig, "revoke-child", 1)
    [child] = [n for n in lifecycle.tree(handle) if rig.goal_of(n.run_id) == "revoke-child"]

    revoke(rig, child.run_id, terminate=False)
    result = rig.result(lifecycle, handle)

    assert result.terminal_state is SubagentState.SUCCEEDED
    assert "[CANCELLED]" in str(result.summary)
    assert str(result.summary).endswith("; all is well")


def test_a_deadline_that_passes_during_a_model_call_interrupts_the_run(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "hand", "late-call").say("So far so good.").call("append", {"line": "x"}).then("never").hold(
        "late-call"
    )
    handle = lifecycle.launch(agent="hand", goal="late-call", timeout_seconds=5.0)
    result = rig.result(lifecycle, handle)

    assert result.terminal_state is SubagentState.INTERRUPTED
    assert result.error_classification is ErrorClassification.DEADLINE_EXCEEDED
    assert result.summary == "So far so good."
    rig.model.wait_for(lambda model: model.in_flight() == 0, timeout_s=GOES_ON_S)


def test_a_deadline_that_passes_while_children_work_interrupts_the_tree(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "boss", "late-root").say("I asked a hand.").call(
        "run_agent", {"name": "hand", "task": "late-child"}
    ).then("never")
    script(rig, "hand", "late-child").say("never").hold("late-child")
    handle = lifecycle.launch(agent="boss", goal="late-root", timeout_seconds=5.0)
    result = rig.result(lifecycle, handle)

    assert result.terminal_state is SubagentState.INTERRUPTED
    assert result.error_classification is ErrorClassification.DEADLINE_EXCEEDED
    assert result.summary == "I asked a hand."
    rig.wait_until(lambda: "RUNNING" not in count_states(lifecycle.tree(handle)), "the child has ended")
    rig.model.wait_for(lambda model: model.in_flight() == 0, timeout_s=GOES_ON_S)


def test_what_a_child_said_before_it_was_cut_is_told_to_its_parent(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "boss", "patient-root").call("run_agent", {"name": "clerk", "task": "cut-child"}).then(
        "I heard: ${results}"
    )
    # It would go on for ever, but may ask its model twice only.
    script(rig, "clerk", "cut-child").say("Half way.").call("append", {"line": "x"}).repeat_last()
    handle = lifecycle.launch(agent="boss", goal="patient-root")
    result = rig.result(lifecycle, handle)

    assert "[MAX_ITERATIONS]" in str(result.summary)
    assert "Half way." in str(result.summary)
    assert len(requests(rig, "cut-child")) == 2


@pytest.mark.parametrize("suspends", [False, True], ids=["in one task", "resumed"])
def test_a_run_out_of_iterations_is_interrupted_with_its_last_text(
    rig: RunRig, lifecycle: SubagentLifecycle, suspends: bool
) -> None:
    word = f"rounds-{suspends}"
    call = ("run_agent", {"name": "hand", "task": "rounds-child"}) if suspends else ("append", {"line": "x"})
    script(rig, "boss", word).say("Round one.").call(*call).then().say("Round two.").call(*call)
    script(rig, "hand", "rounds-child").say("child done")
    handle = lifecycle.launch(agent="boss", goal=word, max_iterations=2)
    result = rig.result(lifecycle, handle)

    assert result.terminal_state is SubagentState.INTERRUPTED
    assert result.error_classification is ErrorClassification.MAX_ITERATIONS
    assert result.summary == "Round two."
    assert len(requests(rig, word)) == 2


def test_a_model_that_is_busy_is_asked_again(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    script(rig, "hand", "busy").say("done").fault(rate_limited(retry_after_ms=50), times=1)
    handle = lifecycle.launch(agent="hand", goal="busy")
    result = rig.result(lifecycle, handle)

    assert result.summary == "done"
    [retried] = of_kind(list(lifecycle.events(handle)), EventType.MODEL_RETRIED)
    assert retried.data["reason"] == ErrorClassification.MODEL_RATE_LIMITED
    assert retried.data["iteration"] == 1
    assert lifecycle.status(handle).usage.model_calls == 1  # pyright: ignore[reportOptionalMemberAccess]


def test_a_stream_that_is_cut_is_asked_for_again(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    severed = script(rig, "hand", "severed").call("append", {"line": "severed"})
    severed.fault(CutStream(), times=1).then("done")
    handle = lifecycle.launch(agent="hand", goal="severed")

    assert rig.result(lifecycle, handle).summary == "done"
    assert [line.split()[1] for line in rig.ledger()].count("severed") == 1
    assert len(requests(rig, "severed")) == 3


def test_a_model_that_never_answers_fails_the_run_with_what_it_had(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "hand", "broken").say("Started.").call("append", {"line": "x"}).then("never").fault(
        server_error(), times=None
    )
    handle = lifecycle.launch(agent="hand", goal="broken")
    result = rig.result(lifecycle, handle)

    assert result.terminal_state is SubagentState.FAILED
    assert result.error_classification is ErrorClassification.MODEL_UNAVAILABLE
    assert result.summary == "Started."
    assert len(requests(rig, "broken")) == 1 + 3


def test_a_cancel_between_two_tries_at_a_model_sends_no_further_one(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "hand", "retry-cancel").say("never").fault(rate_limited(retry_after_s=60), times=None)
    handle = lifecycle.launch(agent="hand", goal="retry-cancel")
    rig.wait_for_event(lifecycle, handle, EventType.MODEL_RETRIED)

    lifecycle.cancel(handle)
    result = rig.result(lifecycle, handle, timeout_s=30)

    assert result.terminal_state is SubagentState.CANCELLED
    assert len(requests(rig, "retry-cancel")) == 1
