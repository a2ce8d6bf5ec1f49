"""One rig for the files that stop and steer single runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.acceptance.run_rig import RunRig, run_rig

from retinue.client import SubagentLifecycle


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    """Two worker processes that serve the default queue only."""
    directory = tmp_path_factory.mktemp("control")
    with run_rig(directory, agents="control.stop_agents", cancel_grace_seconds=0.3) as rig:
        for _ in range(2):
            rig.worker(concurrency=20, queues=["retinue"])
        yield rig


@pytest.fixture
def lifecycle(rig: RunRig) -> SubagentLifecycle:
    """A client."""
    return rig.lifecycle()
