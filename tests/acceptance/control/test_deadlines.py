"""Deadlines: they count from the launch, and stand still while a human is awaited anywhere below.

Real time passes in these tests: each of them waits for a run, which must not end meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from tests.acceptance.run_rig import RunRig, run_rig

from retinue.client import SubagentLifecycle
from retinue.contract import (
    ErrorClassification,
    EventType,
    PendingRequest,
    SubagentHandle,
    SubagentResult,
    SubagentState,
)
from retinue.testing import Call, Turn
from retinue.testing.scripts import Script

DEADLINE_S = 3.0
LONGER_S = 4.0
"""What a human takes: beyond the deadline."""


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    with run_rig(tmp_path_factory.mktemp("deadlines"), agents="control.limit_agents") as rig:
        yield rig


@pytest.fixture
def lifecycle(rig: RunRig) -> SubagentLifecycle:
    """A client, beside two workers."""
    rig.keep_workers(2, concurrency=4)
    return rig.lifecycle()


def script(rig: RunRig, agent: str, word: str) -> Script:
    """What the agent's model says in runs with this word in their goal."""
    return rig.model.script(agent, when=lambda request: word in request.messages[0].text)


def asked(lifecycle: SubagentLifecycle, handle: SubagentHandle) -> PendingRequest:
    """What is asked, once a human is."""
    waited = lifecycle.wait(handle, timeout_seconds=30, until="asked")
    assert not waited.completed, lifecycle.result(handle)
    [request] = lifecycle.pending(handle)
    return request


def lives_on(lifecycle: SubagentLifecycle, handle: SubagentHandle, seconds: float = LONGER_S) -> None:
    """So much time passes, and the run does not end."""
    assert lifecycle.wait(handle, timeout_seconds=seconds).timed_out, lifecycle.result(handle)


def limits(lifecycle: SubagentLifecycle, handle: SubagentHandle) -> tuple[float, float]:
    """The deadline in epoch seconds, and the seconds until then."""
    found = lifecycle.status(handle).limits
    return found["deadline_at"], found["seconds_left"]


def assert_late(result: SubagentResult) -> None:
    assert result.terminal_state is SubagentState.INTERRUPTED
    assert result.error_classification == ErrorClassification.DEADLINE_EXCEEDED


def delegates(rig: RunRig, word: str) -> None:
    """The chief asks the boss, who asks the clerk, whose refund needs an approval."""
    script(rig, "chief", word).call("run_agent", {"name": "boss", "task": f"{word} 1"}).then("${results}")
    script(rig, "boss", word).call("run_agent", {"name": "clerk", "task": f"{word} 2"}).then("${results}")
    script(rig, "clerk", word).call("refund", {"order": 7}).then("${results}")


def test_time_in_the_queue_counts(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    for worker in rig.workers:
        if worker.running:
            worker.kill()
    handle = lifecycle.launch(agent="clerk", goal="queued", timeout_seconds=0.5)
    lives_on(lifecycle, handle, 1.0)
    rig.keep_workers(2, concurrency=4)
    assert_late(rig.result(lifecycle, handle))
    assert not [entry for entry in rig.model.requests("clerk") if "queued" in str(entry.request)]


def test_a_human_who_takes_longer_than_the_deadline_of_the_whole_tree_is_waited_for(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    delegates(rig, "slow-human")
    handle = lifecycle.launch(agent="chief", goal="slow-human", timeout_seconds=DEADLINE_S)
    request = asked(lifecycle, handle)
    first_at, first_left = limits(lifecycle, handle)
    lives_on(lifecycle, handle)
    at, left = limits(lifecycle, handle)

    assert left == first_left <= DEADLINE_S
    assert at - first_at >= LONGER_S
    assert lifecycle.approve(handle, request.request_id).accepted
    assert rig.result(lifecycle, handle).summary == "refund 7"


def test_its_workers_may_all_be_restarted_meanwhile(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    delegates(rig, "restarted")
    handle = lifecycle.launch(agent="chief", goal="restarted", timeout_seconds=DEADLINE_S)
    request = asked(lifecycle, handle)
    for worker in rig.workers:
        if worker.running:
            worker.kill()
    lives_on(lifecycle, handle, DEADLINE_S)
    rig.keep_workers(2, concurrency=4)
    assert lifecycle.deny(handle, request.request_id, "too much").accepted
    assert "too much" in str(rig.result(lifecycle, handle).summary)


def test_once_the_human_has_decided_time_goes_on(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    script(rig, "chief", "goes-on").call("run_agent", {"name": "clerk", "task": "goes-on 1"})
    script(rig, "clerk", "goes-on").call("refund", {"order": 8}).then().say("late").hold("goes-on")
    handle = lifecycle.launch(agent="chief", goal="goes-on", timeout_seconds=DEADLINE_S)
    request = asked(lifecycle, handle)
    lives_on(lifecycle, handle)
    assert lifecycle.approve(handle, request.request_id).accepted

    result = rig.result(lifecycle, handle, timeout_s=DEADLINE_S + 5)
    rig.model.release("goes-on")
    assert_late(result)
    assert result.completed_at is not None
    assert result.completed_at - handle.created_at >= DEADLINE_S + LONGER_S


def test_a_model_request_of_a_run_above_is_not_cut_while_a_child_in_the_background_asks(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    """Its worker took its time at the claim, before the human was awaited."""
    start = Call("run_agent", {"name": "clerk", "task": "apart 1", "background": True})
    script(rig, "chief", "apart").then(Turn(calls=(start,))).then().say("held").hold("apart")
    script(rig, "clerk", "apart").call("refund", {"order": 9}).then("paid")
    handle = lifecycle.launch(agent="chief", goal="apart", timeout_seconds=DEADLINE_S)
    rig.model.wait_for(lambda model: model.in_flight("chief") == 1)
    request = asked(lifecycle, handle)
    lives_on(lifecycle, handle)
    assert rig.model.in_flight("chief") == 1, "the same request"
    assert lifecycle.approve(handle, request.request_id).accepted

    assert_late(rig.result(lifecycle, handle, timeout_s=DEADLINE_S + 5))
    rig.model.release("apart")


def test_a_tool_that_waits_for_a_child_that_asks_is_not_cut(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    sends = {"requests": [{"agent": "clerk", "goal": "inside 1"}], "wait": True}
    script(rig, "chief", "inside").call("send_out", sends).then("heard ${results}")
    script(rig, "clerk", "inside").call("refund", {"order": 10}).then("${results}")
    handle = lifecycle.launch(agent="chief", goal="inside", timeout_seconds=DEADLINE_S)
    request = asked(lifecycle, handle)
    lives_on(lifecycle, handle)
    assert lifecycle.approve(handle, request.request_id).accepted
    assert rig.result(lifecycle, handle).summary == "heard refund 10"


def test_a_cancelled_asker_holds_up_nobody(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    sends = {"requests": [{"agent": "clerk", "goal": "given-up 1"}], "wait": False}
    script(rig, "chief", "given-up").call("send_out", sends).then().say("held").hold("given-up")
    script(rig, "clerk", "given-up").call("refund", {"order": 11}).then("paid")
    handle = lifecycle.launch(agent="chief", goal="given-up", timeout_seconds=DEADLINE_S)
    asked(lifecycle, handle)
    child = SubagentHandle.from_dict(json.loads(rig.wait_for_trace(f"{handle.subagent_id}.child")))
    lives_on(lifecycle, handle)
    assert lifecycle.cancel(child).accepted

    assert_late(rig.result(lifecycle, handle, timeout_s=DEADLINE_S + 5))
    rig.model.release("given-up")
    assert lifecycle.result(child).terminal_state is SubagentState.CANCELLED


def test_a_childs_deadline_is_at_most_what_its_parent_has_left(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    ages = [{"agent": "clerk", "goal": "remainder", "timeout_seconds": 9_000.0}]
    script(rig, "chief", "parent-of").call("send_out", {"requests": ages, "wait": False}).then("sent")
    script(rig, "clerk", "remainder").say("done")
    handle = lifecycle.launch(agent="chief", goal="parent-of", timeout_seconds=600)
    rig.wait_for_event(lifecycle, handle, EventType.RUN_CREATED, count=2)
    child = SubagentHandle.from_dict(json.loads(rig.wait_for_trace(f"{handle.subagent_id}.child")))
    assert limits(lifecycle, child)[0] == limits(lifecycle, handle)[0]
