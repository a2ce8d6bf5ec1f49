"""`retinue logs`: one log of all trees that are live, as another shell sees it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.run_rig import DEADLINE_S, RunRig, run_rig

from retinue.testing.processes import ChildProcess
from retinue.testing.workers import worker_environment

GATE = "seen"
COMMAND = (sys.executable, "-m", "retinue.cli", "logs")


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    with run_rig(tmp_path_factory.mktemp("logs"), agents="tree_agents") as rig:
        level3 = rig.model.script("level3").call("run_agent", {"name": "level4", "task": "note"})
        level3.then().hold(GATE).say("done")
        rig.model.script("level4").say("noted")
        rig.worker()
        yield rig


def environment(rig: RunRig) -> dict[str, str]:
    return worker_environment({"store_url": rig.server.url})


def test_a_log_that_is_followed_tells_of_trees_that_begin_later_to_their_end(
    rig: RunRig, tmp_path: Path
) -> None:
    command = [*COMMAND, "--follow", "--json"]
    with ChildProcess(command, log=tmp_path / "logs.log", cwd=tmp_path, env=environment(rig)) as logs:
        lifecycles = [rig.lifecycle(session) for session in ("one", "two")]
        handles = [lifecycle.launch(agent="level3", goal="logs") for lifecycle in lifecycles]
        for handle in handles:
            logs.wait_for_log(handle.subagent_id, timeout_s=DEADLINE_S)
        rig.model.release(GATE)
        for lifecycle, handle in zip(lifecycles, handles, strict=True):
            rig.result(lifecycle, handle)
        for handle in handles:
            logs.wait_for_log(rf'"run.finished".*{handle.subagent_id}|{handle.subagent_id}.*"run.finished"',
                              timeout_s=DEADLINE_S)  # fmt: skip
        told = [json.loads(line) for line in logs.log_text().splitlines() if line.startswith("{")]

    for lifecycle, handle in zip(lifecycles, handles, strict=True):
        ids = {node.run_id for node in lifecycle.tree(handle)}
        own = [event for event in told if event["run_id"] in ids]
        assert [event["sequence"] for event in own] == [event.sequence for event in lifecycle.events(handle)]
        assert {event["agent"] for event in own} == {"level3", "level4"}


def test_without_following_the_last_events_of_live_trees_are_printed(rig: RunRig, tmp_path: Path) -> None:
    lifecycle = rig.lifecycle("three")
    ended = lifecycle.launch(agent="level4", goal="ended")
    rig.result(lifecycle, ended)

    def printed(*options: str) -> list[str]:
        done = subprocess.run([*COMMAND, *options], capture_output=True, text=True, timeout=60,
                              cwd=tmp_path, env=environment(rig), check=True)  # fmt: skip
        return done.stdout.splitlines()

    assert printed() == []
    lines = printed("--session", "three", "--tail", "2")
    assert len(lines) == 2
    assert all(ended.subagent_id in line and "level4" in line for line in lines)
    assert "run.finished" in lines[-1]
