"""Workers killed at every point of their work, three at a time: nothing is lost, and nothing done twice."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.acceptance.faults.scenario import (
    Scenario,
    script_scenario,
)
from tests.acceptance.run_rig import DEADLINE_S, RunRig, run_rig

from retinue.store.scripts import operation_names
from retinue.testing.processes import ChildProcess
from retinue.testing.workers import worker_environment

_HERE = Path(__file__).parent
_AT_ONCE = 3
_LIMIT_S = 300.0
_POINTS = (
    "before-claim", "after-claim",
    "before-boundary", "after-boundary",
    "before-acquire_place", "after-acquire_place",
    "before-model", "after-model",
    "before-renew_place", "after-renew_place",
    "before-release_place", "after-release_place",
    "before-take_over",  # another one must die for it, so these two do not come together
    "before-record_model", "after-record_model",
    "before-tool", "after-tool",
    "before-free_places",  # likewise
    "before-tool:3", "after-tool:3",
    "after-take_over",
    "after-free_places",
    "before-record_tool_result", "after-record_tool_result",
    "before-record_tool_result:4", "after-record_tool_result:4",
    "before-launch", "after-launch",
    "before-launch:2", "after-launch:3",
    "before-suspend", "after-suspend",
    "before-begin_approved", "after-begin_approved",
    "before-handoff", "after-handoff",
    "before-steer", "after-steer",
    "before-cancel", "after-cancel",
    "before-sweep", "after-sweep",
    "before-note", "after-note",
    "drain/before-hand_back", "drain/after-hand_back",
    "drain/before-note_draining", "drain/after-note_draining",
    "cut/before-take_over", "cut/after-take_over",
    "before-elect", "after-elect",
    "before-timer", "after-timer",
    "before-rewake", "after-rewake",
    "before-no_worker", "after-no_worker",
    "before-forget_queue", "after-forget_queue",
    "before-wakeup", "after-wakeup",
    "before-finish", "after-finish",
    "before-take_out", "after-take_out",
    "before-told", "after-told",
)  # fmt: skip
"""Before and after each script with which a worker or the elected reaper writes, and each model call, tool
call and wake-up; where a turn does the same several times, in the middle of it as well."""

_OF_CLIENTS = {"answer", "decide", "discard"}
"""Scripts that no worker sends; test_killed_processes.py has the clients' points."""


class Farm:
    """Workers that die one after the other; see worker_farm.py."""

    def __init__(self, rig: RunRig, directory: Path, points: Sequence[str]) -> None:
        settings = {
            "agents": "faults.crash_agents",
            "store_url": rig.server.url,
            "lease_seconds": 1.0,
            # So many deaths are no run's own fault.
            "losses_before_worker_lost": 100,
            "approval_ttl_seconds": 5,
            # So that its requests take places, and nobody waits for one.
            "providers": {"openai": {"max_concurrency": 1_000}},
        }
        self._process = ChildProcess(
            [sys.executable, str(_HERE / "worker_farm.py"), str(_AT_ONCE), *points],
            log=directory / "farm.log",
            cwd=directory,
            env=worker_environment(settings, model_url=rig.model.base_url, import_paths=[_HERE.parent]),
        )

    def wait_until_ready(self) -> None:
        """Returns once a worker has said what it can run."""
        self._process.wait_for_log(r"worker\.ready", timeout_s=DEADLINE_S)

    def died(self) -> list[str]:
        """Where workers have died so far."""
        log = self._process.log_text()
        assert self._process.running, log[-2000:]
        assert not re.findall(r"^ended .*", log, re.MULTILINE)
        return re.findall(r"^died (\S+)$", log, re.MULTILINE)

    def close(self) -> None:
        self._process.close()


def _of_known_agents(rig: RunRig, part: str) -> set[str]:
    """The runs that such a key stands for, without those of an agent that no worker has."""
    keys = map(str, rig.store.scan_iter(f"retinue:*:{part}sa-*", _type="hash", count=10_000))
    records = [key for key in keys if key.rpartition(":")[2].startswith("sa-")]
    return {key.rpartition(":")[2] for key in records if rig.store.hget(key, "ag") != "orphan"}


def test_every_script_that_a_worker_writes_with_has_its_points() -> None:
    writes = {name for name in operation_names() if not name.startswith(("read", "find", "list"))}
    tried = {point.rpartition("/")[2] for point in _POINTS}
    assert [
        point
        for name in sorted({*writes, "model", "tool", "wakeup"} - _OF_CLIENTS)
        for point in (f"before-{name}", f"after-{name}")
        if point not in tried
    ] == []


@pytest.mark.timeout(_LIMIT_S + 30)
def test_a_worker_killed_at_any_point_loses_nothing_and_does_nothing_twice(tmp_path: Path) -> None:
    with run_rig(tmp_path, agents="faults.crash_agents") as rig:
        script_scenario(rig.model)
        lifecycle = rig.lifecycle()
        farm = Farm(rig, tmp_path, _POINTS)
        played: list[Scenario] = []
        farm.wait_until_ready()
        deadline = time.monotonic() + _LIMIT_S
        try:
            while len(farm.died()) < len(_POINTS) and time.monotonic() < deadline:
                played.append(Scenario.start(rig, lifecycle, f"s{len(played)}"))
                what = f"the end of scenario {len(played)}"
                rig.wait_until(played[-1].go_on, what, timeout_s=_LIMIT_S)
            assert sorted({*_POINTS} - {*farm.died()}) == []
            for scenario in played:
                rig.wait_until(scenario.is_over, "the end of what nobody waits for")
            rig.wait_until(lambda: not _of_known_agents(rig, "out:"), "the hook is told of every end")
        finally:
            farm.close()
        for scenario in played:
            scenario.check()
        ends = set(rig.trace("ends.txt").read_text().split())
        assert _of_known_agents(rig, "run:") <= ends
