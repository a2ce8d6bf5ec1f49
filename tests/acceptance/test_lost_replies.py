"""Replies of the store that never arrive: a run that delegates waits for it instead of failing."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from tests.acceptance.run_rig import run_rig

from retinue.contract import SubagentState
from retinue.store import keys
from retinue.testing.proxy import FaultProxy, Loss

ALL = 1_000_000


def test_a_run_delegates_though_the_catalogue_cannot_be_read_for_a_while(tmp_path: Path) -> None:
    with run_rig(tmp_path, agents="tree_agents") as rig:
        rig.model.script("level3").call("run_agent", {"name": "level4", "task": "leaf"}).then("(${results})")
        rig.model.script("level4").then("done")
        proxy = FaultProxy(urlsplit(rig.server.url).port or 0)
        try:
            worker = rig.worker(settings={"store_url": proxy.url})
            lifecycle = rig.lifecycle()
            proxy.lose(Loss.REPLY, to=keys.CATALOGUE.encode(), count=ALL)
            handle = lifecycle.launch(agent="level3", goal="delegate")
            # Of the model's response on, nothing but the catalogue keeps the run from its child.
            rig.wait_until(lambda: lifecycle.status(handle).iteration == 1, "the first response")
            before = worker.log_text().count("store.waiting")
            rig.wait_until(
                lambda: (
                    worker.log_text().count("store.waiting") > before + 2
                    or lifecycle.status(handle).state is SubagentState.FAILED
                ),
                "a wait for the catalogue",
            )
            proxy.lose(Loss.REPLY, count=0)
            result = rig.result(lifecycle, handle)
        finally:
            proxy.close()

    assert (result.terminal_state, result.summary) == (SubagentState.SUCCEEDED, "(done)")
