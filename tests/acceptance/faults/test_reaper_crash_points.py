"""The elected reaper killed at every point of what it does: the next one does it, and nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.acceptance.faults import crash_points
from tests.acceptance.faults.farm import LIMIT_S, Farm, play_while_workers_die
from tests.acceptance.faults.unattended import Unattended, script_unattended
from tests.acceptance.run_rig import run_rig

_ANSWER_WITHIN_S = 1


@pytest.mark.timeout(LIMIT_S + 30)
def test_a_reaper_killed_at_any_point_leaves_all_that_it_did_to_the_next_one(tmp_path: Path) -> None:
    with run_rig(tmp_path, agents="faults.crash_agents") as rig:
        script_unattended(rig.model)
        lifecycle = rig.lifecycle()
        farm = Farm(rig, tmp_path, crash_points.REAPER, approval_ttl_seconds=_ANSWER_WITHIN_S)
        play_while_workers_die(rig, farm, lambda goal: Unattended.start(rig, lifecycle, goal))
