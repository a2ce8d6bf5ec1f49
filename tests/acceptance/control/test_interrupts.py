"""An interrupt stops one run, softly: where it stands, what it leaves, and what goes on."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys

import pytest
from tests.acceptance.run_rig import RunRig, count_states, of_kind

from retinue.client import AsyncSubagentLifecycle, SubagentLifecycle
from retinue.contract import (
    ErrorClassification,
    Event,
    EventType,
    Phase,
    SteerState,
    SubagentCancelResult,
    SubagentResult,
    SubagentState,
)
from retinue.store import keys
from retinue.testing.faults import rate_limited
from retinue.testing.scripts import Script

SOON_S = 5.0
ACCEPTED = SubagentCancelResult(accepted=True, state=SubagentState.RUNNING)
AT_ONCE = SubagentCancelResult(accepted=True, state=SubagentState.INTERRUPTED)


def script(rig: RunRig, agent: str, word: str) -> Script:
    """What the agent's model says in runs whose goal is this word."""
    return rig.model.script(agent, when=lambda request: request.messages[0].text == word)


def asked(rig: RunRig, word: str) -> int:
    """How often the model was asked in runs whose goal is this word."""
    found = [recorded.request for recorded in rig.model.requests()]
    return sum(request is not None and request.messages[0].text == word for request in found)


def check_interrupted(result: SubagentResult, text: str | None) -> None:
    assert result.terminal_state is SubagentState.INTERRUPTED
    assert result.error_classification is ErrorClassification.INTERRUPT_REQUESTED
    assert result.summary == text


def interrupts(events: list[Event]) -> list[Event]:
    return [e for e in of_kind(events, EventType.CANCEL_REQUESTED) if e.data["kind"] == "interrupt"]


def test_a_model_request_in_flight_is_dropped_and_none_follows(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "hand", "asking").say("Half way.").call("take_time", {"name": "asking"}).then("never").hold(
        "x"
    )
    rig.trace("asking.go").touch()
    handle = lifecycle.launch(agent="hand", goal="asking")
    rig.model.wait_for(lambda _: asked(rig, "asking") == 2)

    assert lifecycle.interrupt(handle, "enough") == ACCEPTED
    result = rig.result(lifecycle, handle, timeout_s=SOON_S)

    check_interrupted(result, "Half way.")
    rig.model.wait_for(lambda model: model.in_flight() == 0)
    assert asked(rig, "asking") == 2
    [requested] = interrupts(list(lifecycle.events(handle)))
    assert requested.data == {"kind": "interrupt", "reason": "enough"}
    again = SubagentCancelResult(accepted=False, state=SubagentState.INTERRUPTED, already_terminal=True)
    assert lifecycle.interrupt(handle) == again


def test_a_tool_in_flight_is_not_told_and_finishes_and_is_recorded(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "hand", "working").say("I work.").call("take_time", {"name": "working"}).then("never")
    handle = lifecycle.launch(agent="hand", goal="working")
    rig.wait_for_trace("working.started")

    assert lifecycle.interrupt(handle) == ACCEPTED
    assert lifecycle.interrupt(handle) == ACCEPTED, "accepted again"
    status = lifecycle.status(handle)
    assert (status.state, status.phase) == (SubagentState.RUNNING, Phase.TOOL_CALL)
    assert "interrupted" in str(status.diagnostic)
    assert lifecycle.send_steer(handle, "One more thing.").state is SteerState.MISSED
    # Longer than a cancel's grace and until the reaper's next look, both of which must let it be.
    assert not lifecycle.wait(handle, timeout_seconds=2).completed
    rig.trace("working.go").touch()
    result = rig.result(lifecycle, handle, timeout_s=SOON_S)

    check_interrupted(result, "I work.")
    events = list(lifecycle.events(handle))
    assert [event.data["ok"] for event in of_kind(events, EventType.TOOL_FINISHED)] == [True]
    assert len(interrupts(events)) == 1
    entries = rig.store.lrange(keys.thread("_", handle.subagent_id, handle.subagent_id), 0, -1)
    assert "took its time" in str(entries)
    assert asked(rig, "working") == 1


def test_a_queued_run_ends_at_once(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    handle = lifecycle.launch(agent="faraway", goal="queued")
    assert lifecycle.interrupt(handle) == AT_ONCE
    check_interrupted(lifecycle.result(handle), None)


def test_a_waiting_run_ends_at_once_with_its_last_text_and_its_children_go_on(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "chief", "top").call("run_agent", {"name": "boss", "task": "middle"}).then("heard ${results}")
    delegates = script(rig, "boss", "middle").say("I asked two hands.")
    for word in ("left", "right"):
        delegates.call("run_agent", {"name": "hand", "task": word})
        script(rig, "hand", word).say(f"{word} is done").hold("hands")
    delegates.then("never")
    root = lifecycle.launch(agent="chief", goal="top")
    rig.model.wait_for(lambda _: asked(rig, "left") == asked(rig, "right") == 1)
    rig.wait_for_event(lifecycle, root, EventType.RUN_SUSPENDED, count=2)
    [middle] = [node for node in lifecycle.tree(root) if rig.goal_of(node.run_id) == "middle"]
    handle = rig.handle_of(middle.run_id)
    assert lifecycle.status(handle).phase is Phase.WAITING_CHILDREN

    assert lifecycle.interrupt(handle) == AT_ONCE
    check_interrupted(lifecycle.result(handle), "I asked two hands.")
    heard = str(rig.result(lifecycle, root, timeout_s=SOON_S).summary)
    assert heard.startswith("heard [INTERRUPT_REQUESTED] This agent was interrupted")
    assert heard.endswith("I asked two hands.")
    # The root has ended as well, and they follow nobody.
    assert count_states(lifecycle.tree(root)) == {"SUCCEEDED": 1, "INTERRUPTED": 1, "RUNNING": 2}
    rig.model.release("hands")
    states = {"SUCCEEDED": 3, "INTERRUPTED": 1}
    rig.wait_until(lambda: count_states(lifecycle.tree(root)) == states, "both hands have finished")


def test_between_two_tries_at_a_model_no_further_one_is_made(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "hand", "busy").say("never").fault(rate_limited(retry_after_s=30), times=None)
    handle = lifecycle.launch(agent="hand", goal="busy")
    rig.wait_for_event(lifecycle, handle, EventType.MODEL_RETRIED)

    assert lifecycle.interrupt(handle).accepted
    check_interrupted(rig.result(lifecycle, handle, timeout_s=SOON_S), None)
    assert asked(rig, "busy") == 1


def test_an_object_at_work_cannot_be_interrupted(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    handle = lifecycle.launch(agent="sleeper", goal="nap")
    rig.wait_for_trace("nap.started")

    refused = SubagentCancelResult(accepted=False, state=SubagentState.RUNNING, unsupported=True)
    assert lifecycle.interrupt(handle) == refused
    assert not interrupts(list(lifecycle.events(handle)))
    lifecycle.cancel(handle)
    assert rig.result(lifecycle, handle).terminal_state is SubagentState.CANCELLED


def test_a_cancel_after_an_interrupt_is_hard(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    script(rig, "hand", "both").call("take_time", {"name": "both"}).then("never")
    handle = lifecycle.launch(agent="hand", goal="both")
    rig.wait_for_trace("both.started")

    lifecycle.interrupt(handle)
    assert lifecycle.cancel(handle).state is SubagentState.CANCEL_REQUESTED
    result = rig.result(lifecycle, handle, timeout_s=SOON_S)

    assert result.terminal_state is SubagentState.CANCELLED
    assert "still running: take_time" not in str(result.error_message), "its task was cancelled"
    assert lifecycle.interrupt(handle).already_terminal


def test_the_run_of_a_worker_that_dies_under_an_interrupt_is_not_gone_on_with(rig: RunRig) -> None:
    lifecycle = rig.lifecycle()
    script(rig, "hand", "orphan").call("take_time", {"name": "orphan"}).then("never")
    handle = lifecycle.launch(agent="hand", goal="orphan")
    rig.wait_for_trace("orphan.started")
    [started] = of_kind(list(lifecycle.events(handle)), EventType.RUN_STARTED)
    pid = str(rig.store.get(keys.lease(str(started.data["process"])))).rpartition(":")[2]
    [worker] = [worker for worker in rig.workers if str(worker.pid) == pid]

    lifecycle.interrupt(handle)
    worker.kill()
    try:
        check_interrupted(rig.result(lifecycle, handle, timeout_s=20), None)
    finally:
        rig.keep_workers(2, concurrency=20)
    assert asked(rig, "orphan") == 1


def test_coroutines_and_the_command_line_interrupt_as_well(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    for word in ("async", "cli"):
        script(rig, "hand", word).say("never").hold("for ever")
    handles = [lifecycle.launch(agent="hand", goal=word) for word in ("async", "cli")]
    rig.model.wait_for(lambda _: asked(rig, "async") == asked(rig, "cli") == 1)

    async def stop() -> SubagentCancelResult:
        facade = AsyncSubagentLifecycle(session_id="test", settings=rig.settings)
        try:
            return await facade.interrupt(handles[0])
        finally:
            await facade.close()

    assert asyncio.run(stop()) == ACCEPTED
    command = [sys.executable, "-m", "retinue.cli", "interrupt", handles[1].subagent_id, "--json"]
    environment = {**os.environ, "RETINUE_STORE_URL": rig.server.url}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=30)
    assert json.loads(done.stdout) == ACCEPTED.to_dict()
    for handle in handles:
        check_interrupted(rig.result(lifecycle, handle, timeout_s=SOON_S), None)


@pytest.mark.parametrize("handle", [None, 42, {}, "sa-nobody"])
def test_what_is_no_handle_is_unknown(lifecycle: SubagentLifecycle, handle: object) -> None:
    assert lifecycle.interrupt(handle) == SubagentCancelResult.unknown()
