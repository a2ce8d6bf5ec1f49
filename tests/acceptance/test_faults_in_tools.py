"""Tools, objects and launches that go wrong in ways of their own: the run ends, and its worker goes on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.run_rig import RunRig, of_kind, run_rig

from retinue.client import SubagentLifecycle
from retinue.contract import ErrorClassification, EventType, SubagentState

GRACE_S = 4.0
SOON_S = 30.0
"""By when a run has ended that is out of time, or whose grace is over: its tool would take a minute."""


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    """A worker whose cancelled tools get some seconds."""
    directory: Path = tmp_path_factory.mktemp("faults")
    workspace = directory / "workspace"
    workspace.mkdir()
    (workspace / "file").write_text("in the way")
    with run_rig(
        directory, agents="fault_agents", cancel_grace_seconds=GRACE_S, workspace_root=str(workspace)
    ) as rig:
        rig.worker(concurrency=10)
        yield rig


@pytest.fixture
def lifecycle(rig: RunRig) -> SubagentLifecycle:
    """A client."""
    return rig.lifecycle()


def script(rig: RunRig, word: str, *calls: tuple[str, dict[str, str]]) -> None:
    """What the model says in runs with this word in their goal: some text and the calls, then the results."""
    turn = rig.model.script("faulty", when=lambda request: word in request.messages[0].text).say("So far.")
    for name, arguments in calls:
        turn.call(name, arguments)
    turn.then("heard ${results}")


@pytest.mark.parametrize(
    ("directory", "reason"), [("a" * 300, "too long"), ("file/sub", "Not a directory")], ids=["long", "file"]
)
def test_a_working_directory_that_cannot_be_made_fails_the_run_with_the_reason(
    rig: RunRig, lifecycle: SubagentLifecycle, directory: str, reason: str
) -> None:
    handle = lifecycle.launch(agent="faulty", goal="nowhere", working_directory=directory)
    result = rig.result(lifecycle, handle, timeout_s=SOON_S)

    assert result.terminal_state is SubagentState.FAILED
    assert result.error_classification is ErrorClassification.AGENT_ERROR
    assert reason in str(result.error_message)
    assert "workspace_root" in str(result.error_message)


@pytest.mark.parametrize(
    "stored", ["{}", "no JSON", '{"request": {"goal": "secret", "new": 1}, "role": "leaf"}']
)
def test_a_run_that_this_worker_cannot_read_fails_and_quotes_nothing(
    rig: RunRig, lifecycle: SubagentLifecycle, stored: str
) -> None:
    [worker] = rig.workers
    worker.pause()
    try:
        handle = lifecycle.launch(agent="faulty", goal="from another version")
        [key] = rig.store.scan_iter(f"*run:{handle.subagent_id}:req", count=10_000)
        rig.store.set(key, stored)
    finally:
        worker.resume()
    rig.wait_until(
        lambda: lifecycle.status(handle).state is SubagentState.FAILED, "it ends", timeout_s=SOON_S
    )

    [ended] = of_kind(list(lifecycle.events(handle)), EventType.RUN_FINISHED)
    assert ended.data["classification"] == ErrorClassification.INTERNAL_ERROR
    [result] = rig.store.scan_iter(f"*run:{handle.subagent_id}:res", count=10_000)
    assert "another version" in str(rig.store.get(result))
    assert "secret" not in str(rig.store.get(result))


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ("cancels", "CancelledError"),
        ("cancels_itself", "CancelledError"),
        ("exits", "SystemExit"),
        ("interrupts", "KeyboardInterrupt"),
        ("exits_in_thread", "SystemExit"),
    ],
)
def test_a_tool_that_raises_what_ends_tasks_is_answered_once_and_its_siblings_finish(
    rig: RunRig, lifecycle: SubagentLifecycle, tool: str, name: str
) -> None:
    script(rig, f"raise-{tool}.", (tool, {}), ("writes_slowly", {}))
    handle = lifecycle.launch(agent="faulty", goal=f"raise-{tool}.")
    result = rig.result(lifecycle, handle, timeout_s=SOON_S)

    assert result.terminal_state is SubagentState.SUCCEEDED
    assert f"[ERROR] RuntimeError: {name}" in str(result.summary)
    assert str(result.summary).endswith("; written")
    mine = [line.split()[1] for line in rig.ledger() if line.startswith(handle.subagent_id)]
    assert mine == [tool, "writes_slowly"]


@pytest.mark.parametrize("agent", ["canceller", "quitter"])
def test_an_object_that_raises_what_ends_tasks_fails_its_run(
    rig: RunRig, lifecycle: SubagentLifecycle, agent: str
) -> None:
    result = rig.result(lifecycle, lifecycle.launch(agent=agent, goal="now"), timeout_s=SOON_S)

    assert result.terminal_state is SubagentState.FAILED
    assert result.error_classification is ErrorClassification.AGENT_ERROR


@pytest.mark.parametrize("tool", ["hangs", "stays"])
def test_a_deadline_ends_a_run_whose_tool_hangs(rig: RunRig, lifecycle: SubagentLifecycle, tool: str) -> None:
    name = f"late-{tool}"
    script(rig, name, (tool, {"name": name}))
    handle = lifecycle.launch(agent="faulty", goal=name, timeout_seconds=4.0)
    result = rig.result(lifecycle, handle, timeout_s=4.0 + SOON_S)

    assert result.terminal_state is SubagentState.INTERRUPTED
    assert result.error_classification is ErrorClassification.DEADLINE_EXCEEDED
    assert result.summary == "So far."
    assert tool in str(result.error_message)
    rig.wait_for_trace(f"{name}.told")
    rig.workers[0].wait_for_log(
        rf"tool\.still_running run={handle.subagent_id} tool={tool}", timeout_s=SOON_S
    )


@pytest.mark.parametrize("tool", ["hangs", "stays"])
def test_a_cancel_ends_a_run_whose_tool_hangs_once_its_grace_is_over(
    rig: RunRig, lifecycle: SubagentLifecycle, tool: str
) -> None:
    name = f"cancel-{tool}"
    script(rig, name, (tool, {"name": name}))
    handle = lifecycle.launch(agent="faulty", goal=name)
    rig.wait_for_trace(f"{name}.started")

    asked = time.monotonic()
    lifecycle.cancel(handle)
    rig.wait_for_trace(f"{name}.told")
    assert time.monotonic() - asked < GRACE_S
    result = rig.result(lifecycle, handle, timeout_s=GRACE_S + SOON_S)

    assert result.terminal_state is SubagentState.CANCELLED
    assert time.monotonic() - asked >= GRACE_S
    before = list(lifecycle.events(handle))
    assert not of_kind(before, EventType.TOOL_FINISHED)


def test_a_tool_that_heeds_a_cancel_is_given_its_grace(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    script(rig, "heed", ("cleans_up", {"name": "heed"}))
    handle = lifecycle.launch(agent="faulty", goal="heed")
    rig.wait_for_trace("heed.started")

    lifecycle.cancel(handle)
    result = rig.result(lifecycle, handle, timeout_s=SOON_S)

    assert result.terminal_state is SubagentState.CANCELLED
    assert rig.trace("heed.told").exists()
    assert of_kind(list(lifecycle.events(handle)), EventType.TOOL_FINISHED)


def test_an_object_that_will_not_be_cancelled_is_left_behind(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    handle = lifecycle.launch(agent="stayer", goal="stay")
    rig.wait_for_trace("stay.started")

    lifecycle.cancel(handle)
    result = rig.result(lifecycle, handle, timeout_s=GRACE_S + SOON_S)

    assert result.terminal_state is SubagentState.CANCELLED


def test_a_worker_with_tools_left_behind_still_works_and_stops(tmp_path: Path) -> None:
    with run_rig(tmp_path, agents="fault_agents", cancel_grace_seconds=0.1, drain_seconds=1.0) as rig:
        worker, lifecycle = rig.worker(concurrency=1), rig.lifecycle()
        for tool in ("hangs", "stays"):
            script(rig, f"left-{tool}", (tool, {"name": f"left-{tool}"}))
            handle = lifecycle.launch(agent="faulty", goal=f"left-{tool}", timeout_seconds=3)
            rig.wait_for_trace(f"left-{tool}.started")
            assert rig.result(lifecycle, handle).terminal_state is SubagentState.INTERRUPTED
        script(rig, "after", ("writes_slowly", {}))
        assert (
            rig.result(lifecycle, lifecycle.launch(agent="faulty", goal="after")).summary == "heard written"
        )

        worker.terminate()
        worker.wait(40)


def test_restarts_that_cut_a_tool_cost_its_run_no_loss(tmp_path: Path) -> None:
    with run_rig(tmp_path, agents="fault_agents", drain_seconds=0.2, lease_seconds=30.0) as rig:
        script(rig, "re-run", ("takes_long_until", {"name": "open"}), ("takes_long", {}))
        lifecycle = rig.lifecycle()
        worker = rig.worker(concurrency=2)
        handle = lifecycle.launch(agent="faulty", goal="re-run")
        restarts = 4
        for number in range(restarts):
            rig.wait_until(lambda n=number: _times(rig, "takes_long_until") == n + 1, "its tool runs")
            worker.terminate()
            worker.wait(40)
            # Its lease is long: only the stopping process itself can have handed the run back by now.
            worker = rig.worker(concurrency=2)
        rig.trace("open").touch()
        result = rig.result(lifecycle, handle)

        assert result.terminal_state is SubagentState.SUCCEEDED
        assert str(result.summary).startswith("heard found open; [OUTCOME UNKNOWN]")
        assert _times(rig, "takes_long") == 1
        assert not of_kind(list(lifecycle.events(handle)), EventType.ATTEMPT_LOST)


def _times(rig: RunRig, tool: str) -> int:
    """How often a tool has run."""
    return [line.split()[1] for line in rig.ledger()].count(tool)
