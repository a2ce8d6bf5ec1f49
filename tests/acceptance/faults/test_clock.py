"""The wall clock of the store's host steps by an hour, monotonic ones do not: nothing is lost or doubled.

What counts by that clock moves with it, as it must: deadlines, and how long results are kept.
"""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.acceptance.run_rig import RunRig
from tests.acceptance.tree_script import answer, script_tree

from retinue.broker.routes import queue_key
from retinue.contract import SubagentState
from retinue.testing.scripted_server import ScriptedServer
from retinue.testing.servers import PrivateServer

HOUR_S = 3600
SOURCE = Path(__file__).with_name("stepped_clock.c")

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


class SteppedRig(RunRig):
    """A rig whose server's clock a test can step."""

    clock: Path
    off_s = 0

    def step(self, seconds: int) -> None:
        """Moves the server's clock from where it is now."""
        before = self.store.time()[0]
        self.off_s += seconds
        self.clock.write_text(str(self.off_s))
        # The server reads its clock once a turn of its loop, not once a command.
        self.wait_until(lambda: abs(self.store.time()[0] - before) > HOUR_S - 60, "the step")


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SteppedRig]:
    """A server whose clock is right so far."""
    directory: Path = tmp_path_factory.mktemp("clock")
    library, clock = directory / "stepped_clock.so", directory / "step"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE], check=True)
    environment = {"LD_PRELOAD": str(library), "CLOCK_STEP_FILE": str(clock)}
    with ExitStack() as stack:
        server = stack.enter_context(PrivateServer("valkey", environment=environment))
        model = stack.enter_context(ScriptedServer(latency_s=0.02))
        rig = SteppedRig(server, model, directory, stack, agents="tree_agents")
        rig.clock = clock
        script_tree(rig.model)
        yield rig


@pytest.mark.parametrize("seconds", [HOUR_S, -HOUR_S], ids=["forwards", "backwards"])
def test_a_step_in_the_middle_of_a_tree_and_then_a_killed_worker(rig: SteppedRig, seconds: int) -> None:
    lifecycle, workers, calls = rig.lifecycle(), rig.keep_workers(2, concurrency=4), rig.model.count()
    handle = lifecycle.launch(agent="level1", goal=f"step {seconds}")
    rig.model.wait_for(lambda model: model.count() - calls >= 20, timeout_s=30)
    rig.step(seconds)
    rig.model.wait_for(lambda model: model.count() - calls >= 40, timeout_s=30)
    workers[0].kill()
    result = rig.result(lifecycle, handle)

    assert result.terminal_state is SubagentState.SUCCEEDED
    ran = Counter(line.split()[0] for line in rig.ledger())
    assert [key for key, times in ran.items() if times > 1] == []
    after = lifecycle.launch(agent="level2", goal=f"after {seconds}")
    assert rig.result(lifecycle, after).summary == answer(f"after {seconds}", 2)


def test_a_wake_up_lost_before_a_step_backwards_is_sent_again_at_once(rig: SteppedRig) -> None:
    lifecycle = rig.lifecycle()
    for worker in rig.keep_workers(1, concurrency=4):
        worker.kill()
    handle = lifecycle.launch(agent="level4", goal="lost")
    assert rig.store.delete(queue_key("retinue", 6))
    rig.step(-HOUR_S)
    rig.keep_workers(1, concurrency=4)

    assert rig.result(lifecycle, handle).summary == "wrote lost"
