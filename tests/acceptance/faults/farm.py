"""Workers that die one after the other, each at another point, while scenarios are played."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from tests.acceptance.run_rig import DEADLINE_S, RunRig

from retinue.testing.processes import ChildProcess
from retinue.testing.workers import worker_environment

LIMIT_S = 300.0
"""For a machine with other things to do."""

_HERE = Path(__file__).parent
_AT_ONCE = 3
_ENDS = "ends.txt"


class Playable(Protocol):
    """A scenario that was started."""

    def go_on(self) -> bool:
        """Does what is to be done from outside; whether the next scenario may begin."""
        ...

    def is_over(self) -> bool:
        """Likewise; whether all of it is over."""
        ...

    def check(self) -> None:
        """Raises AssertionError where something was lost, or done twice."""
        ...


class Farm:
    """The workers; see worker_farm.py.

    Args:
        rig: Whose store and model they have.
        directory: Where they run.
        points: Where one is to die each.
        settings: Of the workers, besides those that such a life needs.
    """

    def __init__(self, rig: RunRig, directory: Path, points: Sequence[str], **settings: object) -> None:
        self._points = Counter(points)
        self._ends = directory / _ENDS
        self._ends.touch()
        environment = {
            "agents": "faults.crash_agents",
            "store_url": rig.server.url,
            "lease_seconds": 1.0,
            # So many deaths are no run's own fault.
            "losses_before_worker_lost": 100,
            **settings,
        }
        self._process = ChildProcess(
            [sys.executable, str(_HERE / "worker_farm.py"), str(self._ends), str(_AT_ONCE), *points],
            log=directory / "farm.log",
            cwd=directory,
            env=worker_environment(environment, model_url=rig.model.base_url, import_paths=[_HERE.parent]),
        )

    def wait_until_ready(self) -> None:
        """Returns once a worker has said what it can run."""
        self._process.wait_for_log(r"worker\.ready", timeout_s=DEADLINE_S)

    def left(self) -> list[str]:
        """The points at which no worker has died so far."""
        assert self._process.running, self._process.log_text()[-2000:]
        ends = [line.split() for line in self._ends.read_text().splitlines()]
        assert [end for end in ends if end[0] != "died"] == []
        return sorted((self._points - Counter(point for _, point in ends)).elements())

    def close(self) -> None:
        self._process.close()


def play_while_workers_die(
    rig: RunRig, farm: Farm, start: Callable[[str], Playable], *, limit_s: float = LIMIT_S
) -> None:
    """Plays one scenario after the other until a worker has died at each point, and checks them all.

    Args:
        start: Starts one; takes a word of its own.
        limit_s: Within which the workers must have died.
    """
    played: list[Playable] = []
    farm.wait_until_ready()
    deadline = time.monotonic() + limit_s
    try:
        while farm.left() and time.monotonic() < deadline:
            played.append(start(f"s{len(played)}"))
            rig.wait_until(played[-1].go_on, f"the end of scenario {len(played)}", timeout_s=limit_s)
        assert farm.left() == []
        for scenario in played:
            rig.wait_until(scenario.is_over, "the end of all that was begun")
    finally:
        farm.close()
    for scenario in played:
        scenario.check()
