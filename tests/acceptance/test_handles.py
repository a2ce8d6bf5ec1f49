"""Handles kept as JSON, and correlation ids: both outlast every process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.run_rig import RunRig, run_rig

from retinue.contract import (
    ErrorCode,
    SubagentHandle,
    SubagentLifecycleError,
    SubagentState,
)
from retinue.testing.scripts import Script
from retinue.testing.workers import worker_environment

ASK = """
import json, sys
from retinue.client import SubagentLifecycle

def ask(session_id, handle):
    lifecycle = SubagentLifecycle(session_id=session_id)
    return {
        "waited": lifecycle.wait(handle, timeout_seconds=40).to_dict(),
        "status": lifecycle.status(handle).to_dict(),
        "result": lifecycle.result(handle).to_dict(),
        "reconnect": lifecycle.reconnect(handle).to_dict(),
        "events": [event.type for event in lifecycle.events(handle)],
    }

print(json.dumps([ask(*question) for question in json.load(sys.stdin)]))
"""


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    """A server whose data outlasts it."""
    directory: Path = tmp_path_factory.mktemp("handles")
    with run_rig(directory, agents="control_agents", appendonly=True) as rig:
        yield rig


def script(rig: RunRig, word: str) -> Script:
    """What the hand's model says in runs with this word in their goal."""
    return rig.model.script("hand", when=lambda request: word in request.messages[0].text)


def ask_elsewhere(rig: RunRig, questions: list[tuple[str, Any]]) -> list[dict[str, Any]]:
    """What another process, which has nothing but session ids and handles, learns of each run."""
    answer = subprocess.run(
        [sys.executable, "-c", ASK],
        input=json.dumps(questions),
        env=worker_environment({"store_url": rig.server.url}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def test_handles_work_in_another_process_after_everything_was_restarted(rig: RunRig) -> None:
    script(rig, "kept").call("append", {"line": "kept"}).then("kept answer")
    script(rig, "going").call("append", {"line": "going"}).then("late answer").hold("going")
    [worker] = rig.keep_workers(1, concurrency=4)
    lifecycle = rig.lifecycle("customer")
    kept = lifecycle.launch(agent="hand", goal="kept", metadata={"ticket": 7})
    result = rig.result(lifecycle, kept)
    going = lifecycle.launch(agent="hand", goal="going")
    rig.wait_until(lambda: len(rig.ledger()) == 2, "both have written")
    rig.model.wait_for(lambda model: model.in_flight("hand") == 1, timeout_s=30)
    questions: list[tuple[str, Any]] = [
        ("customer", kept.to_dict()),
        ("customer", going.to_dict()),
        ("somebody else", kept.to_dict()),
    ]

    lifecycle.close()
    worker.kill()
    rig.server.restart()
    rig.model.release("going")
    rig.keep_workers(1, concurrency=4)
    first, second, foreign = ask_elsewhere(rig, questions)

    assert first["result"] == json.loads(json.dumps(result.to_dict()))
    assert first["result"]["summary"] == "kept answer"
    assert first["result"]["metadata"] == {"ticket": 7}
    assert first["status"]["state"] == SubagentState.SUCCEEDED
    assert first["reconnect"] == {"connected": True, "state": "SUCCEEDED", "diagnostic": None}
    assert first["waited"]["completed"] is True
    assert second["result"]["summary"] == "late answer"
    assert [line.split()[1] for line in rig.ledger()] == ["kept", "going"]
    assert {"run.created", "run.finished"} <= set(first["events"])

    assert foreign["status"]["state"] == SubagentState.UNKNOWN
    assert foreign["result"]["summary"] is None
    assert foreign["events"] == []


def test_forged_and_malformed_handles_get_the_unknown_answers(rig: RunRig) -> None:
    script(rig, "real").say("secret")
    rig.keep_workers(1, concurrency=4)
    lifecycle = rig.lifecycle()
    handle = lifecycle.launch(agent="hand", goal="real")
    rig.result(lifecycle, handle)
    genuine = handle.to_dict()

    wrong: list[object] = [
        {**genuine, "capability": genuine["capability"][:-2] + "AA"},
        {**genuine, "depth": 1},
        {**genuine, "contract_version": 2},
        {**genuine, "created_at": "yesterday"},
        {name: value for name, value in genuine.items() if name != "role"},
        json.dumps(genuine)[:-10],
        None,
        42,
    ]
    for each in wrong:
        assert lifecycle.status(each).state is SubagentState.UNKNOWN
        assert lifecycle.result(each).summary is None
        assert lifecycle.wait(each, timeout_seconds=0).completed
        assert lifecycle.cancel(each).unknown_handle
        assert not lifecycle.steer(each, "hello")
        assert not lifecycle.reconnect(each).connected
        assert list(lifecycle.events(each)) == []
        assert lifecycle.tree(each) == ()
    assert lifecycle.result(SubagentHandle.from_dict(genuine)).summary == "secret"


def test_a_correlation_id_names_one_run_also_after_a_restart(rig: RunRig) -> None:
    script(rig, "ticket").say("done")
    rig.keep_workers(1, concurrency=4)
    lifecycle = rig.lifecycle("ticketing")
    request: dict[str, Any] = {"agent": "hand", "goal": "ticket", "correlation_id": "ticket-9001"}
    handle = lifecycle.launch(request)
    rig.result(lifecycle, handle)
    rig.server.restart()

    with pytest.raises(SubagentLifecycleError) as duplicate:
        lifecycle.launch(request)
    assert (duplicate.value.code, duplicate.value.field) == (
        ErrorCode.DUPLICATE_CORRELATION,
        "correlation_id",
    )
    again = lifecycle.launch({**request, "on_duplicate": "return"})
    assert again == handle
    with pytest.raises(SubagentLifecycleError) as conflict:
        lifecycle.launch({**request, "on_duplicate": "return", "goal": "another ticket"})
    assert conflict.value.code is ErrorCode.CORRELATION_CONFLICT
    assert rig.lifecycle("another").launch(request).subagent_id != handle.subagent_id
    assert len(lifecycle.list()) == 1
