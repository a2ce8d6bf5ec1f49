"""Workers killed at every point of their stop: their runs go on elsewhere, and nothing is done twice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.acceptance.faults import crash_points
from tests.acceptance.faults.errands import helper, helper_answer
from tests.acceptance.faults.farm import LIMIT_S, Farm, play_while_workers_die
from tests.acceptance.faults.histories import History
from tests.acceptance.run_rig import RunRig, run_rig

from retinue.client import SubagentLifecycle

_HELPERS = 6
_LATENCY_S = 0.5
"""Of the model: longer than a worker needs from its signal to its stop, so that runs are in flight then."""


@dataclass(frozen=True)
class Errands:
    """A few helpers at once."""

    history: History

    @classmethod
    def start(cls, rig: RunRig, lifecycle: SubagentLifecycle, goal: str) -> Errands:
        """Launches them."""
        specs = [{"agent": "helper", "goal": f"{goal}.{number}"} for number in range(_HELPERS)]
        return cls(History(rig, lifecycle, goal, tuple(lifecycle.launch_many(specs))))

    def go_on(self) -> bool:
        """Whether all of it is over."""
        return self.history.have_ended(*self.history.roots)

    is_over = go_on

    def check(self) -> None:
        """Nothing was lost, and nothing done twice."""
        for number, root in enumerate(self.history.roots):
            self.history.check_answer(root, helper_answer(f"{self.history.goal}.{number}"), runs=1)
        self.history.check()


@pytest.mark.timeout(LIMIT_S + 30)
def test_a_worker_killed_at_any_point_of_its_stop_loses_nothing_and_does_nothing_twice(
    tmp_path: Path,
) -> None:
    with run_rig(tmp_path, agents="faults.crash_agents", latency_s=_LATENCY_S) as rig:
        rig.model.script("helper").reply(helper)
        lifecycle = rig.lifecycle()
        farm = Farm(rig, tmp_path, crash_points.STOPPING)
        play_while_workers_die(rig, farm, lambda goal: Errands.start(rig, lifecycle, goal))
