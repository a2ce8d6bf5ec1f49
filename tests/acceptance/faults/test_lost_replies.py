"""Each write of a worker whose request or reply is lost: it happens once, and the run goes on by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.acceptance.faults.scenario import Scenario, script_scenario
from tests.acceptance.faults.unattended import Unattended, script_unattended
from tests.acceptance.run_rig import DEADLINE_S, RunRig, of_kind, run_rig

from retinue.contract import EventType, SubagentState
from retinue.store import keys
from retinue.store.scripts import script
from retinue.testing.proxy import FaultProxy, Loss
from retinue.testing.workers import WorkerProcess
from retinue.worker.calls.tool_calls import OUTCOME_UNKNOWN

WRITES = ("claim", "boundary", "record_model", "record_tool_result", "launch", "suspend", "finish")
MODEL_CALLS = 4
OTHERS = ("begin_approved", "handoff", "note", "steer", "cancel", "sweep")
OF_REAPER = ("elect", "timer", "no_worker", "rewake", "forget_queue")
"""What a worker and the elected reaper write besides, but for what hands runs back and takes them over."""


class Way(NamedTuple):
    """A rig whose worker reaches the store by way of a proxy."""

    rig: RunRig
    proxy: FaultProxy

    def worker(self, *, concurrency: int, **settings: object) -> WorkerProcess:
        """A worker that soon gives up waiting for a reply; the clients are not attacked, and wait longer."""
        settings |= {"store_url": self.proxy.url, "store_timeout_seconds": 0.5}
        return self.rig.worker(concurrency=concurrency, settings=settings)


@pytest.fixture(scope="module")
def way(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Way]:
    directory: Path = tmp_path_factory.mktemp("lost")
    with run_rig(directory, agents="tree_agents") as rig:
        rig.model.script("level3").call("run_agent", {"name": "level4", "task": "${user}"}).then("${results}")
        rig.model.script("level4").call("append", {"line": "${user}"}).then("${results}")
        with FaultProxy(rig.server.port) as proxy:
            way = Way(rig, proxy)
            way.worker(concurrency=1)
            yield way


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


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Way]:
    """A rig with the agents of the scenario, and no worker yet."""
    with run_rig(tmp_path, agents="faults.crash_agents", approval_ttl_seconds=5) as rig:
        script_scenario(rig.model)
        script_unattended(rig.model)
        rig.model.script("helper", when=lambda asked: asked.messages[0].text == "held").hold("held").call(
            "look", {"line": "${user}"}
        ).then("${results}")
        with FaultProxy(rig.server.port) as proxy:
            yield Way(rig, proxy)


def lose_replies(way: Way, write: str) -> None:
    """The next two to a script, which is then known by its digest."""
    way.rig.store.script_load(script(write).body)
    way.proxy.lose(Loss.REPLY, to=script(write).sha.encode(), count=2)


def are_lost(way: Way) -> bool:
    return way.proxy.losses_left == 0


@pytest.mark.timeout(240)
def test_each_other_write_whose_reply_is_lost_happens_once(alone: Way) -> None:
    rig, lifecycle = alone.rig, alone.rig.lifecycle()
    alone.worker(concurrency=4)
    played: list[Scenario | Unattended] = []

    for write in OTHERS:
        lose_replies(alone, write)
        while not are_lost(alone):
            played.append(Scenario.start(rig, lifecycle, f"{write}-{len(played)}"))
            rig.wait_until(played[-1].go_on, f"the end of what loses {write}")
    for write in OF_REAPER:
        lose_replies(alone, write)
        while not are_lost(alone):
            played.append(Unattended.start(rig, lifecycle, f"{write}-{len(played)}"))
            rig.wait_until(lambda: are_lost(alone) or played[-1].is_over(), f"the loss of {write}")

    for scenario in played:
        rig.wait_until(scenario.is_over, "the end of all that was begun")
        scenario.check()
        assert not of_kind(scenario.history.events(), EventType.ATTEMPT_LOST)
        assert not any(
            OUTCOME_UNKNOWN in str(lifecycle.result(root).summary) for root in scenario.history.roots
        )


def test_a_run_whose_taking_over_is_not_answered_is_taken_over_once(alone: Way) -> None:
    rig, lifecycle = alone.rig, alone.rig.lifecycle()
    alone.worker(concurrency=4)
    doomed = rig.worker(concurrency=4)
    handles = lifecycle.launch_many([{"agent": "helper", "goal": "held"}] * 8)
    rig.model.wait_for(lambda model: model.in_flight("helper") == 8, timeout_s=DEADLINE_S)

    lose_replies(alone, "take_over")
    doomed.kill()
    rig.wait_until(lambda: are_lost(alone), "the loss of both")
    rig.model.release("held")

    assert {rig.result(lifecycle, handle).summary for handle in handles} == {"saw held"}
    lost = [len(of_kind(list(lifecycle.events(handle)), EventType.ATTEMPT_LOST)) for handle in handles]
    assert sorted(lost) == [0] * 4 + [1] * 4


@pytest.mark.parametrize(("write", "drain_seconds"), [("hand_back", 30), ("take_over", 0)])
def test_a_run_that_a_stopping_worker_hands_back_unanswered_goes_on_elsewhere(
    alone: Way, write: str, drain_seconds: float
) -> None:
    rig, lifecycle = alone.rig, alone.rig.lifecycle()
    stopping = alone.worker(concurrency=4, drain_seconds=drain_seconds)
    handle = lifecycle.launch(agent="helper", goal="held")
    rig.model.wait_for(lambda model: model.in_flight("helper") == 1, timeout_s=DEADLINE_S)
    [process] = map(str, rig.store.hkeys(keys.WORKERS))
    rig.worker(concurrency=4)

    lose_replies(alone, write)
    stopping.terminate()
    if drain_seconds:
        rig.wait_until(lambda: '"draining": true' in str(rig.store.hget(keys.WORKERS, process)), "its drain")
        rig.model.release("held")
    rig.wait_until(lambda: are_lost(alone), "the loss of both")
    rig.model.release("held")

    assert stopping.wait(DEADLINE_S) == 0
    assert rig.result(lifecycle, handle).summary == "saw held"
    assert not of_kind(list(lifecycle.events(handle)), EventType.ATTEMPT_LOST)
    assert [line.split()[2:] for line in rig.ledger()] == [["look", "held"]]
