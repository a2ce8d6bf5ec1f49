"""Workers killed at every point of what runs do, three at a time: nothing is lost, and nothing done twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.acceptance.faults import crash_points
from tests.acceptance.faults.farm import LIMIT_S, Farm, play_while_workers_die
from tests.acceptance.faults.scenario import Scenario, script_scenario
from tests.acceptance.run_rig import run_rig

from retinue.store.scripts import operation_names


def test_every_script_that_a_worker_writes_with_has_its_points() -> None:
    writes = {name for name in operation_names() if not name.startswith(("read", "find", "list"))}
    tried = {point.rpartition("/")[2] for point in crash_points.ALL}
    assert [
        point
        for name in sorted({*writes, "model", "tool", "wakeup"} - crash_points.OF_CLIENTS)
        for point in (f"before-{name}", f"after-{name}")
        if point not in tried
    ] == []


@pytest.mark.timeout(LIMIT_S + 30)
def test_a_worker_killed_at_any_point_loses_nothing_and_does_nothing_twice(tmp_path: Path) -> None:
    with run_rig(tmp_path, agents="faults.crash_agents") as rig:
        script_scenario(rig.model)
        lifecycle = rig.lifecycle()
        # So that its requests take places, and nobody waits for one.
        places = {"openai": {"max_concurrency": 1_000}}
        farm = Farm(rig, tmp_path, crash_points.RUNS, providers=places)
        play_while_workers_die(rig, farm, lambda goal: Scenario.start(rig, lifecycle, goal))
