"""What a worker's log tells of the runs it did, and of modules that hold no agent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.run_rig import RunRig, run_rig

from retinue.contract import SubagentState

_AGENTS = """
from retinue.agents import Agent
good = Agent(name="good", instructions="You are good.", model="m")
"""


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    """A worker with one agent, and a module that holds none."""
    directory: Path = tmp_path_factory.mktemp("log")
    (directory / "good_agents.py").write_text(_AGENTS)
    (directory / "bare_agents.py").write_text("def make(): ...\n")
    with run_rig(directory, agents="good_agents,bare_agents", workspace_root=str(directory)) as rig:
        rig.model.script("good").say("Done.").repeat_last()
        rig.worker(concurrency=2)
        yield rig


def line_of(rig: RunRig, run_id: str) -> str:
    (worker,) = rig.workers
    pattern = re.compile(rf"^.*task\.done run={run_id}.*$", re.MULTILINE)
    found: list[str] = []

    def written() -> bool:
        found[:] = pattern.findall(worker.log_text())
        return bool(found)

    rig.wait_until(written, "the log has the task")
    (line,) = found
    return line


def test_a_failed_run_is_a_warning_with_state_and_classification(rig: RunRig) -> None:
    lifecycle = rig.lifecycle()
    handle = lifecycle.launch(agent="good", goal="Go.", working_directory="a" * 300)
    assert rig.result(lifecycle, handle).terminal_state is SubagentState.FAILED

    line = line_of(rig, handle.subagent_id)

    assert " agent=good outcome=finish state=FAILED classification=AGENT_ERROR duration_s=" in line
    assert "WARNING" in line


def test_a_run_that_succeeds_is_told_with_its_state_alone(rig: RunRig) -> None:
    lifecycle = rig.lifecycle()
    handle = lifecycle.launch(agent="good", goal="Go.")
    rig.succeeded(lifecycle, handle)

    line = line_of(rig, handle.subagent_id)

    assert " agent=good outcome=finish state=SUCCEEDED duration_s=" in line
    assert "INFO" in line


def test_a_module_without_an_agent_is_warned_of(rig: RunRig) -> None:
    (worker,) = rig.workers
    (line,) = [line for line in worker.log_text().splitlines() if "agents.none" in line]
    assert "module=bare_agents: it declares no agent; agents must stand at the top level of a module" in line
