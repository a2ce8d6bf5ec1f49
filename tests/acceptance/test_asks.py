"""Runs that wait for a human: approved, denied, answered or out of time, whatever process dies meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.run_rig import RunRig, of_kind, run_rig

from retinue.cli.exits import ExitCode
from retinue.client import SubagentLifecycle
from retinue.contract import (
    DecisionRefusal,
    EventType,
    PendingRequest,
    Phase,
    RequestKind,
    SubagentHandle,
    SubagentState,
)
from retinue.testing.scripts import Script
from retinue.testing.workers import worker_environment

UNKNOWN = "[OUTCOME UNKNOWN]"


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    """Workers of one slot, so that a run that held it while it waits would stop all others."""
    directory: Path = tmp_path_factory.mktemp("asks")
    with run_rig(directory, agents="ask_agents") as rig:
        yield rig


@pytest.fixture
def lifecycle(rig: RunRig) -> SubagentLifecycle:
    """A client, beside two workers with one slot each."""
    rig.keep_workers(2, concurrency=1)
    return rig.lifecycle()


def replace_workers(rig: RunRig) -> None:
    """Kills every worker and starts new ones."""
    for worker in rig.workers:
        if worker.running:
            worker.kill()
    rig.keep_workers(2, concurrency=1)


def script(rig: RunRig, agent: str, word: str) -> Script:
    """What the agent's model says in runs with this word in their goal."""
    return rig.model.script(agent, when=lambda request: word in request.messages[0].text)


def asked(lifecycle: SubagentLifecycle, handle: SubagentHandle, count: int = 1) -> list[PendingRequest]:
    """What is asked, once a human is."""
    waited = lifecycle.wait(handle, timeout_seconds=30, until="asked")
    assert (waited.completed, waited.timed_out) == (False, False), waited
    pending = list(lifecycle.pending(handle))
    assert len(pending) == count
    return pending


def ran(rig: RunRig, line: str) -> int:
    """How often a tool wrote a line."""
    return sum(entry.split(" ", 1)[1] == line for entry in rig.ledger())


def told(rig: RunRig, word: str) -> list[str]:
    """What the model was told of its calls in runs with this word in their goal, at the last request."""
    found = [recorded.request for recorded in rig.model.requests()]
    last = [request for request in found if request and word in request.messages[0].text][-1]
    return [message["content"] for message in last.body["messages"] if message["role"] == "tool"]


def test_an_approved_call_runs_once_with_the_arguments_that_were_asked_about(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "clerk", "approve").call("refund", {"order": 1}).then("${results}")
    handle = lifecycle.launch(agent="clerk", goal="approve")

    [request] = asked(lifecycle, handle)
    assert (request.kind, request.tool, request.arguments) == (RequestKind.APPROVAL, "refund", {"order": 1})
    assert (request.run_id, request.agent) == (handle.subagent_id, "clerk")
    status = lifecycle.status(handle)
    assert (status.state, status.phase, status.pending) == (SubagentState.RUNNING, Phase.WAITING_APPROVAL, 1)
    assert ran(rig, "refund 1") == 0
    assert lifecycle.approve(handle, request.request_id).accepted
    result = rig.result(lifecycle, handle)

    assert result.summary == "refunded 1"
    assert ran(rig, "refund 1") == 1
    assert lifecycle.approve(handle, request.request_id).reason is DecisionRefusal.ENDED
    log = list(lifecycle.events(handle))
    [event] = of_kind(log, EventType.APPROVAL_REQUESTED)
    assert (event.data["tool"], event.data["arguments"]) == ("refund", {"order": 1})
    [event] = of_kind(log, EventType.APPROVAL_DECIDED)
    assert event.data["decision"] == "approved"
    assert len(of_kind(log, EventType.TOOL_FINISHED)) == 1


def test_a_denied_call_does_not_run_and_the_model_is_told_why(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "clerk", "deny").call("refund", {"order": 2}).then("${results}")
    handle = lifecycle.launch(agent="clerk", goal="deny")
    [request] = asked(lifecycle, handle)

    assert lifecycle.deny(handle, request.request_id, "not over 100 euros").accepted
    assert lifecycle.approve(handle, request.request_id).reason in (
        DecisionRefusal.DECIDED, DecisionRefusal.ENDED,
    )  # fmt: skip
    result = rig.result(lifecycle, handle)

    assert result.summary == "[DENIED] A human refused this call. Reason: not over 100 euros"
    assert ran(rig, "refund 2") == 0


def test_the_caller_answers_a_client_tool(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    script(rig, "locator", "answer").call("where_are_you", {"unit": "town"}).then("${results}")
    handle = lifecycle.launch(agent="locator", goal="answer")
    [request] = asked(lifecycle, handle)
    assert (request.kind, request.tool, request.arguments) == (
        RequestKind.INPUT, "where are you", {"unit": "town"},
    )  # fmt: skip
    assert lifecycle.status(handle).phase is Phase.WAITING_INPUT

    assert lifecycle.approve(handle, request.request_id).reason is DecisionRefusal.WRONG_KIND
    assert lifecycle.answer(handle, request.request_id, {"place": "Münster"}).accepted
    assert rig.result(lifecycle, handle).summary == '{"place": "Münster"}'


def test_what_nobody_decides_in_time_is_denied(rig: RunRig) -> None:
    script(rig, "clerk", "expire").call("refund", {"order": 3}).then("${results}")
    rig.keep_workers(0, concurrency=1)
    hasty = rig.worker(concurrency=1, settings={"approval_ttl_seconds": 1})
    try:
        lifecycle = rig.lifecycle()
        handle = lifecycle.launch(agent="clerk", goal="expire")
        [request] = asked(lifecycle, handle)
        result = rig.result(lifecycle, handle)
    finally:
        hasty.close()

    assert "expired" in str(result.summary)
    assert ran(rig, "refund 3") == 0
    assert not lifecycle.approve(handle, request.request_id).accepted


def test_a_call_that_could_not_run_is_not_asked_about(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    script(rig, "clerk", "wrong").call("refund", {"order": "x"}).call("refund", {}).then("${results}")
    handle = lifecycle.launch(agent="clerk", goal="wrong")
    assert "argument 'order'" in str(rig.result(lifecycle, handle).summary)
    assert of_kind(list(lifecycle.events(handle)), EventType.APPROVAL_REQUESTED) == []


def test_an_approval_in_a_grandchild_through_the_roots_handle_with_all_workers_restarted(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "chief", "tree").call("count", {}).call("run_agent", {"name": "boss", "task": "tree"}).then(
        "chief: ${results}"
    )
    script(rig, "boss", "tree").call("run_agent", {"name": "clerk", "task": "tree"}).then("boss: ${results}")
    script(rig, "clerk", "tree").call("count", {}).call("refund", {"order": 4}).then("clerk: ${results}")
    handle = lifecycle.launch(agent="chief", goal="tree")
    [request] = asked(lifecycle, handle)
    assert request.run_id != handle.subagent_id
    assert lifecycle.status(handle).pending == 0

    rig.wait_until(lambda: ran(rig, "count") == 2, "both have counted")
    replace_workers(rig)
    assert [again.request_id for again in lifecycle.pending(handle)] == [request.request_id]
    assert lifecycle.approve(handle, request.request_id).accepted
    result = rig.result(lifecycle, handle)

    assert "refunded 4" in str(result.summary)
    assert (ran(rig, "count"), ran(rig, "refund 4")) == (2, 1)


def test_waiting_runs_hold_no_slot(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    script(rig, "clerk", "wait-here").call("refund", {"order": 5}).then("${results}")
    script(rig, "clerk", "go-past").say("free")
    handles = lifecycle.launch_many([{"agent": "clerk", "goal": "wait-here"}] * 5)
    requests = [asked(lifecycle, handle)[0] for handle in handles]

    assert rig.result(lifecycle, lifecycle.launch(agent="clerk", goal="go-past")).summary == "free"
    for handle, request in zip(handles, requests, strict=True):
        assert lifecycle.approve(handle, request.request_id).accepted
    assert {rig.result(lifecycle, handle).summary for handle in handles} == {"refunded 5"}
    assert ran(rig, "refund 5") == 5


def test_the_command_line_tells_what_is_asked_and_decides(
    rig: RunRig, lifecycle: SubagentLifecycle, tmp_path: Path
) -> None:
    def retinue(*arguments: str, code: ExitCode = ExitCode.OK) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "retinue.cli", *arguments],
            capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False,
            env=worker_environment({"store_url": rig.server.url}),
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        return done.stdout.strip()

    script(rig, "clerk", "by hand").call("refund", {"order": 11}).call("refund", {"order": 12}).then(
        "${results}"
    )
    script(rig, "locator", "by hand").call("where_are_you", {"unit": "town"}).then("${results}")
    run = lifecycle.launch(agent="clerk", goal="by hand").subagent_id
    assert retinue("wait", run, "--until", "asked", code=ExitCode.NOT_READY) == "RUNNING"
    first, second = retinue("pending", run).splitlines()
    assert first == f'{run}/1:0  approval  clerk  refund {{"order": 11}}'
    assert retinue("approve", run, first.split()[0]) == "approved"
    assert retinue("deny", run, second.split()[0], "--reason", "enough") == "denied"
    assert retinue("wait", run) == "SUCCEEDED"
    denied = "[DENIED] A human refused this call. Reason: enough"
    assert retinue("result", run) == f"refunded 11; {denied}"

    run = lifecycle.launch(agent="locator", goal="by hand").subagent_id
    retinue("wait", run, "--until", "asked", code=ExitCode.NOT_READY)
    [request] = json.loads(retinue("pending", run, "--json"))["pending"]
    assert json.loads(retinue("answer", run, request["request_id"], "Münster", "--json"))["accepted"]
    assert retinue("answer", run, first.split()[0], "x", code=ExitCode.UNKNOWN_HANDLE) == ""
    assert retinue("wait", run) == "SUCCEEDED"
    assert retinue("result", run) == "Münster"


def test_calls_of_one_turn_are_decided_one_by_one_and_each_gets_one_result(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    calls = script(rig, "clerk", "several").call("refund", {"order": 6}).call("count", {})
    calls.call("refund", {"order": 7}).call("refund", {"order": 8}).then("${results}")
    handle = lifecycle.launch(agent="clerk", goal="several")
    first, second, third = asked(lifecycle, handle, 3)

    assert lifecycle.approve(handle, third.request_id).accepted
    rig.wait_until(lambda: ran(rig, "refund 8") == 1, "the approved call, before the others are decided")
    assert len(lifecycle.pending(handle)) == 2
    assert lifecycle.deny(handle, first.request_id).accepted
    assert lifecycle.approve(handle, second.request_id).accepted
    result = rig.result(lifecycle, handle)

    denied = "[DENIED] A human refused this call."
    assert result.summary == f"{denied}; counted; refunded 7; refunded 8"
    assert told(rig, "several") == [denied, "counted", "refunded 7", "refunded 8"]
    assert ran(rig, "refund 6") == 0
    assert [ran(rig, line) for line in ("refund 7", "refund 8")] == [1, 1]


@pytest.mark.parametrize(
    ("tool", "times", "outcome"), [("pay", 1, UNKNOWN), ("pay_once", 2, "paid")], ids=["pay", "pay_once"]
)
def test_a_worker_killed_right_after_the_approval_was_used(
    rig: RunRig, lifecycle: SubagentLifecycle, tool: str, times: int, outcome: str
) -> None:
    """The approval is gone: what may have taken effect is not done again, unless the tool allows it."""
    word = f"{tool}-is-killed"
    script(rig, "clerk", word).call(tool, {"name": word}).then("${results}")
    handle = lifecycle.launch(agent="clerk", goal=word)
    [request] = asked(lifecycle, handle)
    assert lifecycle.approve(handle, request.request_id).accepted
    rig.wait_for_trace(f"{word}.started")
    replace_workers(rig)
    result = rig.result(lifecycle, handle)

    assert str(result.summary).startswith(outcome)
    assert ran(rig, f"{tool} {word}") == times
    assert len(of_kind(list(lifecycle.events(handle)), EventType.APPROVAL_REQUESTED)) == 1


def test_after_a_cancel_a_decision_is_refused(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    script(rig, "clerk", "cancel").call("refund", {"order": 9}).then("${results}")
    handle = lifecycle.launch(agent="clerk", goal="cancel")
    [request] = asked(lifecycle, handle)

    lifecycle.cancel(handle)
    refused = lifecycle.approve(handle, request.request_id)
    assert (refused.accepted, refused.reason) == (False, DecisionRefusal.ENDED)
    assert rig.result(lifecycle, handle).terminal_state is SubagentState.CANCELLED
    assert lifecycle.pending(handle) == ()
    assert ran(rig, "refund 9") == 0


def test_only_the_owner_decides(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    script(rig, "clerk", "owner").call("refund", {"order": 10}).then("${results}")
    handle = lifecycle.launch(agent="clerk", goal="owner")
    [request] = asked(lifecycle, handle)
    other = rig.lifecycle("somebody else")
    mine = other.launch(agent="clerk", goal="owner")
    asked(other, mine)

    everything: list[Any] = [
        other.approve(handle, request.request_id),
        other.deny(mine, request.request_id),
        lifecycle.approve(handle, f"{handle.subagent_id}/1:7"),
        lifecycle.answer(handle, "no request id", "x"),
        lifecycle.approve("no handle", request.request_id),
    ]
    assert {(each.accepted, each.reason) for each in everything} == {(False, DecisionRefusal.UNKNOWN)}
    assert other.pending(handle) == ()
    for facade, one in ((lifecycle, handle), (other, mine)):
        facade.cancel(one)
