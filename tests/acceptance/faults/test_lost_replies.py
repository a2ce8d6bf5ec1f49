"""Each write of a worker whose request or reply is lost: it happens once, and the run goes on by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.acceptance.run_rig import RunRig, of_kind, run_rig

from retinue.contract import EventType, SubagentState
from retinue.store.scripts import script
from retinue.testing.proxy import FaultProxy, Loss

WRITES = ("claim", "boundary", "record_model", "record_tool_result", "launch", "suspend", "finish")
MODEL_CALLS = 4


class Way(NamedTuple):
    """A rig whose worker reaches the store by way of a proxy."""

    rig: RunRig
    proxy: FaultProxy


@pytest.fixture(scope="module")
def way(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Way]:
    directory: Path = tmp_path_factory.mktemp("lost")
    with run_rig(directory, agents="tree_agents", store_timeout_seconds=0.5) as rig:
        rig.model.script("level3").call("run_agent", {"name": "level4", "task": "${user}"}).then("${results}")
        rig.model.script("level4").call("append", {"line": "${user}"}).then("${results}")
        with FaultProxy(rig.server.port) as proxy:
            rig.worker(concurrency=1, settings={"store_url": proxy.url})
            yield Way(rig, proxy)


@pytest.mark.parametrize("loss", [Loss.REQUEST, Loss.REPLY, Loss.SILENCE])
@pytest.mark.parametrize("write", WRITES)
def test_a_write_that_is_not_answered_happens_once(way: Way, write: str, loss: Loss) -> None:
    rig, goal = way.rig, f"{write}-{loss}"
    lifecycle, calls = rig.lifecycle(goal), rig.model.count()
    # By its digest, which is how a worker calls what the server knows.
    rig.store.script_load(script(write).body)

    way.proxy.lose(loss, to=script(write).sha.encode(), count=1 if loss is Loss.SILENCE else 2)
    handle = lifecycle.launch(agent="level3", goal=goal)
    result = rig.result(lifecycle, handle)
    way.proxy.lose(loss, count=0)

    assert (result.terminal_state, result.summary) == (SubagentState.SUCCEEDED, f"wrote {goal}")
    assert [line.split(maxsplit=1)[1] for line in rig.ledger()].count(goal) == 1
    assert rig.model.count() - calls == MODEL_CALLS
    events = list(lifecycle.events(handle))
    assert not of_kind(events, EventType.ATTEMPT_LOST)
    assert len(lifecycle.tree(handle)) == 2
    often = Counter((event.run_id, event.type) for event in events)
    for run_id in {event.run_id for event in events}:
        assert often[run_id, EventType.RUN_CREATED] == 1
        assert often[run_id, EventType.MODEL_FINISHED] == 2
        assert often[run_id, EventType.TOOL_FINISHED] == 1
        assert often[run_id, EventType.RUN_FINISHED] == 1
