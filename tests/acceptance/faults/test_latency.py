"""A network with half a second of latency each way: everything is slow, and nothing is given up."""

from __future__ import annotations

from pathlib import Path

from tests.acceptance.run_rig import of_kind, run_rig

from retinue.client import SubagentLifecycle
from retinue.contract import EventType, SubagentState
from retinue.testing.proxy import FaultProxy

LATENCY_S = 0.5


def test_half_a_second_each_way_to_store_and_broker(tmp_path: Path) -> None:
    with (
        run_rig(tmp_path, agents="tree_agents", lease_seconds=5.0) as rig,
        FaultProxy(rig.server.port) as way,
    ):
        rig.model.script("level4").call("append", {"line": "${user}"}).then("${results}")
        worker = rig.worker(settings={"store_url": way.url})
        settings = rig.settings.model_copy(update={"store_url": way.url})
        with SubagentLifecycle(session_id="slow", settings=settings) as slow:
            way.delay(LATENCY_S)
            handles = slow.launch_many([{"agent": "level4", "goal": f"slow{n}"} for n in range(5)])
            stopped = slow.launch(agent="level4", goal="stopped")
            assert slow.cancel(stopped).accepted
            assert all(end.completed for end in slow.wait_all(handles, timeout_seconds=60))
            way.delay(0)
        lifecycle = rig.lifecycle("slow")
        results = [lifecycle.result(handle) for handle in handles]
        events = [event for handle in handles for event in lifecycle.events(handle)]
        assert rig.result(lifecycle, stopped).terminal_state in (
            SubagentState.CANCELLED,
            SubagentState.SUCCEEDED,
        )

    assert [result.summary for result in results] == [f"wrote slow{n}" for n in range(len(handles))]
    assert not of_kind(events, EventType.ATTEMPT_LOST)
    assert len(of_kind(events, EventType.MODEL_FINISHED)) == 2 * len(handles)
    assert "lease.lost" not in worker.log_text()
    assert len(rig.ledger()) - len(handles) <= 1
