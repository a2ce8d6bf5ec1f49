"""Hooks on two worker processes: what they are told, once for each end, whoever dies on the way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.acceptance.run_rig import RunRig, run_rig

from retinue.client import SubagentLifecycle
from retinue.contract import EventType
from retinue.store import keys
from retinue.testing.scripts import Script


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    """Two worker processes; the first process that is lost with a run ends it."""
    directory = tmp_path_factory.mktemp("hooks")
    settings: dict[str, Any] = {"hook_timeout_seconds": 1.0, "losses_before_worker_lost": 1}
    with run_rig(directory, agents="control.hook_agents", **settings) as rig:
        for _ in range(2):
            rig.worker(concurrency=20)
        yield rig


@pytest.fixture
def lifecycle(rig: RunRig) -> SubagentLifecycle:
    """A client."""
    return rig.lifecycle()


def script(rig: RunRig, agent: str, word: str) -> Script:
    """What the agent's model says in runs whose goal is this word."""
    return rig.model.script(agent, when=lambda request: request.messages[0].text == word)


def told(rig: RunRig, run_id: str) -> list[dict[str, Any]]:
    """What hooks were told of a run, in order."""
    path = rig.trace("hooks.txt")
    lines = path.read_text().splitlines() if path.exists() else []
    return [line for line in map(json.loads, lines) if line["run"] == run_id]


def wait_for_stop(rig: RunRig, run_id: str, *, timeout_s: float = 30) -> dict[str, Any]:
    """What the hook was told of a run's end, once nothing is left to be told."""

    def stops() -> list[dict[str, Any]]:
        return [line for line in told(rig, run_id) if line["hook"] == "stop"]

    rig.wait_until(lambda: bool(stops()), "the hook is told of the end", timeout_s=timeout_s)
    rig.wait_until(lambda: not outbox(rig), "nothing is left to be told", timeout_s=timeout_s)
    (stop,) = stops()
    return stop


def outbox(rig: RunRig) -> list[str]:
    """All keys that stand for something that is still to be told."""
    return [*rig.store.scan_iter("retinue:*:out:*", count=10_000)]


def worker_of(rig: RunRig, lifecycle: SubagentLifecycle, handle: object) -> Any:
    """The process that started a run."""
    event = rig.wait_for_event(lifecycle, handle, EventType.RUN_STARTED)
    pid = str(rig.store.get(keys.lease(str(event.data["process"])))).rpartition(":")[2]
    (found,) = [worker for worker in rig.workers if str(worker.pid) == pid]
    return found


def test_hooks_are_told_of_parent_and_child_in_order_and_once(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    rig.trace("tree.go").touch()
    script(rig, "boss", "top").call("run_agent", {"name": "hand", "task": "below"}).then("all done")
    script(rig, "hand", "below").call("work", {"name": "tree"}).then("done")
    handle = lifecycle.launch(agent="boss", goal="top", metadata={"ticket": 7})
    stop = wait_for_stop(rig, handle.subagent_id)

    assert [line["hook"] for line in told(rig, handle.subagent_id)] == ["start", "delegate", "stop"]
    assert all(line["metadata"] == {"ticket": 7} for line in told(rig, handle.subagent_id))
    assert (stop["state"], stop["cls"], stop["calls"], stop["agent"]) == ("SUCCEEDED", None, 2, "boss")
    delegated = told(rig, handle.subagent_id)[1]
    assert delegated["to"] == "hand"
    child = told(rig, delegated["child"])
    wait_for_stop(rig, delegated["child"])
    assert [line["hook"] for line in child] == ["start", "tool", "stop"]
    assert {line["parent"] for line in child} == {handle.subagent_id}
    assert (child[1]["tool"], child[1]["ok"], child[1]["took"]) == ("work", True, True)
    assert child[2]["tools"] == {"work": 1}


def test_a_handoff_is_told_with_both_agents(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    rig.model.script("front").call("handoff_conversation", {"recipient": "expert"})
    rig.model.script("expert").say("I am the expert.")
    handle = lifecycle.launch(agent="desk", goal="hello")
    wait_for_stop(rig, handle.subagent_id)
    (line,) = [line for line in told(rig, handle.subagent_id) if line["hook"] == "handoff"]
    assert "expert" in line["to"]
    assert "expert" not in line["agent"]


def test_a_run_that_no_worker_ever_held_is_told_of(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    for worker in rig.workers:
        worker.pause()
    try:
        handle = lifecycle.launch(agent="hand", goal="cancelled", metadata={"ticket": 8})
        lifecycle.cancel(handle)
    finally:
        for worker in rig.workers:
            worker.resume()
    stop = wait_for_stop(rig, handle.subagent_id)
    assert (stop["state"], stop["never_started"], stop["metadata"]) == ("CANCELLED", True, {"ticket": 8})
    assert [line["hook"] for line in told(rig, handle.subagent_id)] == ["stop"]


def test_a_hook_that_fails_or_hangs_is_logged_without_what_it_says_and_the_others_are_told(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "hand", "hang").say("done")
    handle = lifecycle.launch(agent="hand", goal="hang", metadata={"hang": True})
    assert rig.result(lifecycle, handle).summary == "done"
    wait_for_stop(rig, handle.subagent_id)
    log = "".join(worker.log_text() for worker in rig.workers)
    run = f"run={handle.subagent_id}"
    assert f"hook.failed point=on_stop hook=fails {run} error=ValueError" in log
    assert f"hook.timed_out point=on_stop hook=hangs {run} timeout_s=1" in log
    assert "secret of" not in log


def test_a_run_whose_worker_is_killed_is_told_of_once_by_another(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "hand", "killed").call("work", {"name": "killed"}).then("never")
    handle = lifecycle.launch(agent="hand", goal="killed")
    rig.wait_for_trace("killed.started")
    worker = worker_of(rig, lifecycle, handle)
    worker.kill()
    try:
        stop = wait_for_stop(rig, handle.subagent_id)
    finally:
        rig.keep_workers(2, concurrency=20)
    assert (stop["state"], stop["cls"]) == ("FAILED", "WORKER_LOST")
    assert stop["pid"] != worker.pid


def test_a_worker_that_dies_within_the_hook_leaves_the_end_to_another(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "hand", "die").say("done")
    handle = lifecycle.launch(agent="hand", goal="die", metadata={"die": True})
    try:
        stop = wait_for_stop(rig, handle.subagent_id, timeout_s=40)
    finally:
        rig.keep_workers(2, concurrency=20)
    assert stop["state"] == "SUCCEEDED"
    assert str(stop["pid"]) != rig.trace("died.txt").read_text()
