"""A process that others take for dead takes no work, and goes on once its lease is back."""

from __future__ import annotations

import time
from pathlib import Path

from tests.acceptance.run_rig import RunRig, run_rig

from retinue.broker.routes import queue_keys
from retinue.contract import Phase, SubagentState
from retinue.store import keys

_POPS_FOR_S = 1.0
"""How long a pop that was sent waits on the server."""


def lies_untouched(rig: RunRig) -> bool:
    """Whether one wake-up is on the broker and nobody pops."""
    queued = sum(int(str(rig.store.llen(key))) for key in queue_keys("retinue"))
    return queued == 1 and not any("b" in client["flags"] for client in rig.store.client_list())


def test_a_process_that_hangs_leaves_new_work_to_others_until_it_goes_on(tmp_path: Path) -> None:
    with run_rig(tmp_path, agents="hang_agents", hang_seconds=2.0) as rig:
        rig.model.script("hanging").call("block", {}).then("went on")
        rig.model.script("quick").then("done")
        worker = rig.worker(concurrency=4)
        lifecycle = rig.lifecycle()
        lifecycle.launch(agent="hanging", goal="hang")
        rig.wait_for_trace("blocked")
        rig.wait_until(lambda: not rig.store.keys(keys.lease("*")), "the end of the lease")
        # What it takes before it knows, it drops later, and the reaper sends again.
        worker.wait_for_log(r"lease\.lost")

        handle = lifecycle.launch(agent="quick", goal="later")
        rig.wait_until(lambda: lies_untouched(rig), "the wake-up on the broker")
        until = time.monotonic() + 2 * _POPS_FOR_S
        while time.monotonic() < until:
            assert lies_untouched(rig), "and it stays there"
        assert lifecycle.status(handle).phase in (Phase.QUEUED, Phase.NO_WORKER)

        rig.trace("go_on").touch()
        result = rig.result(lifecycle, handle)

    assert result.terminal_state is SubagentState.SUCCEEDED
