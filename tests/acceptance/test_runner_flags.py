"""What each capability flag of a runner says, as it shows: for the own loop, and for an object with run()."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.run_rig import RunRig, of_kind, run_rig

from retinue.agents import RunnerKind
from retinue.client import SubagentLifecycle
from retinue.contract import ErrorClassification, EventType, Phase, SteerState, SubagentHandle, SubagentState
from retinue.testing.scripts import Script

LOOP, OBJECT = RunnerKind.LOOP.capabilities, RunnerKind.OBJECT.capabilities


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    """Workers come with the tests."""
    directory: Path = tmp_path_factory.mktemp("flags")
    with run_rig(directory, agents="output_agents") as rig:
        yield rig


def script(rig: RunRig, agent: str, word: str) -> Script:
    """What the agent's model says in runs with this word in their goal."""
    return rig.model.script(agent, when=lambda request: word in request.messages[0].text)


def begin(rig: RunRig, lifecycle: SubagentLifecycle, agent: str, goal: str) -> SubagentHandle:
    """A run of an object that has begun, and waits for a file."""
    handle = lifecycle.launch(agent=agent, goal=goal)
    rig.wait_for_trace(f"{goal}.begun")
    return handle


def test_can_steer(rig: RunRig) -> None:
    assert (LOOP.can_steer, OBJECT.can_steer) == (True, False)
    rig.keep_workers(1, concurrency=4)
    lifecycle = rig.lifecycle("steer")
    script(rig, "plain", "steer").hold("steer").say("a").then("b")
    loop = lifecycle.launch(agent="plain", goal="steer")
    rig.model.wait_for(lambda model: model.in_flight("plain") == 1, timeout_s=30)
    thing = begin(rig, lifecycle, "patient", "deaf")

    receipts = [lifecycle.send_steer(handle, "Hear this.").state for handle in (loop, thing)]
    assert not lifecycle.steer(thing, "Hear this.")
    rig.model.release("steer")
    rig.trace("deaf.open").touch()

    assert receipts == [SteerState.QUEUED, SteerState.UNSUPPORTED]
    assert [steer.state for steer in rig.result(lifecycle, loop).steers] == [SteerState.DELIVERED]
    assert rig.result(lifecycle, thing).steers == ()


def test_can_checkpoint(rig: RunRig) -> None:
    assert (LOOP.can_checkpoint, OBJECT.can_checkpoint) == (True, False)
    rig.keep_workers(0, concurrency=4)
    first = rig.worker(concurrency=4)
    lifecycle = rig.lifecycle("checkpoint")
    script(rig, "plain", "kept").call("append", {"line": "kept"}).then().hold("kept").say("done")
    loop = lifecycle.launch(agent="plain", goal="kept")
    lost = begin(rig, lifecycle, "patient", "lost")
    anew = begin(rig, lifecycle, "steady", "anew")
    rig.wait_for_event(lifecycle, loop, EventType.MODEL_STARTED, count=2)
    rig.model.wait_for(lambda model: model.in_flight("plain") == 1, timeout_s=30)

    rig.worker(concurrency=4)
    first.kill()
    rig.wait_for_event(lifecycle, anew, EventType.ATTEMPT_LOST)
    rig.model.release("kept")
    rig.trace("anew.open").touch()

    assert rig.result(lifecycle, loop).summary == "done"
    assert [line.split()[1] for line in rig.ledger()] == ["kept"]
    assert rig.result(lifecycle, lost).error_classification is ErrorClassification.WORKER_LOST
    assert rig.trace("lost.begun").read_text().splitlines() == ["begun"]
    assert rig.result(lifecycle, anew).summary == "anew is done"
    assert rig.trace("anew.begun").read_text().splitlines() == ["begun"] * 2


def test_can_suspend(rig: RunRig) -> None:
    assert (LOOP.can_suspend, OBJECT.can_suspend) == (True, False)
    [worker] = rig.keep_workers(1, concurrency=1)
    lifecycle = rig.lifecycle("suspend")
    for word in ("left", "stays"):
        script(rig, "plain", word).hold(word).say(f"{word} answers")
    script(rig, "reader", "suspended").call("run_agent", {"name": "plain", "task": "left"}).then("${results}")

    loop = lifecycle.launch(agent="reader", goal="suspended")
    rig.model.wait_for(lambda model: model.in_flight("plain") == 1, timeout_s=30)
    rig.wait_for_event(lifecycle, loop, EventType.RUN_SUSPENDED)
    status, busy = lifecycle.status(loop), rig.active(worker)
    assert (status.phase, [loop.subagent_id in task for task in busy]) == (Phase.WAITING_CHILDREN, [False])
    rig.model.release("left")
    assert rig.result(lifecycle, loop).summary == "left answers"

    thing = lifecycle.launch(agent="delegating", goal="stays")
    rig.model.wait_for(lambda model: model.in_flight("plain") == 1, timeout_s=30)
    assert any(thing.subagent_id in task for task in rig.active(worker))
    rig.model.release("stays")
    assert rig.result(lifecycle, thing).summary == "heard stays answers"
    assert of_kind(list(lifecycle.events(thing)), EventType.RUN_SUSPENDED) == []


def test_reports_usage(rig: RunRig) -> None:
    assert (LOOP.reports_usage, OBJECT.reports_usage) == (True, False)
    rig.keep_workers(1, concurrency=4)
    lifecycle = rig.lifecycle("usage")
    script(rig, "plain", "usage").say("done")
    loop = lifecycle.run(agent="plain", goal="usage", wait_seconds=30)
    thing = begin(rig, lifecycle, "patient", "unknown")

    assert lifecycle.status(thing).usage is None
    rig.trace("unknown.open").touch()
    result = rig.result(lifecycle, thing)

    assert result.terminal_state is SubagentState.SUCCEEDED
    assert lifecycle.status(thing).usage is None
    assert result.usage_metadata == {}
    assert [node.usage for node in lifecycle.tree(thing)] == [None]
    assert "tool_calls" not in result.tool_execution_summary
    used = lifecycle.status(loop.handle).usage
    assert used
    assert used.model_calls == 1
    assert loop.usage_metadata["input_tokens"] > 0
    assert loop.tool_execution_summary["tool_calls"] == 0
