"""Trees of runs: a waiting parent holds no slot, so one slot is enough for any of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.run_rig import RunRig, count_states, of_kind, run_rig
from tests.acceptance.tree_script import (
    CHILDREN,
    LEAVES,
    MODEL_CALLS,
    RUNS,
    answer,
    check_nothing_ran_twice,
    script_tree,
)

from retinue.contract import EventType, SubagentState


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    """A worker with one slot."""
    directory: Path = tmp_path_factory.mktemp("tree")
    with run_rig(directory, agents="tree_agents") as rig:
        script_tree(rig.model)
        rig.worker(concurrency=1)
        yield rig


def test_a_worker_with_one_slot_finishes_a_tree_of_depth_four(rig: RunRig) -> None:
    lifecycle = rig.lifecycle("tree")

    handle = lifecycle.launch(agent="level0", goal="tree")
    result = rig.result(lifecycle, handle)

    assert result.terminal_state is SubagentState.SUCCEEDED
    assert result.summary == answer("tree")
    assert count_states(lifecycle.tree(handle)) == {"SUCCEEDED": RUNS}
    assert len(rig.ledger()) == LEAVES
    assert rig.model.count() == MODEL_CALLS
    assert rig.model.peak() == 1
    check_nothing_ran_twice(rig, lifecycle, handle)


def test_the_events_of_a_tree_tell_each_suspension_and_resumption(rig: RunRig) -> None:
    lifecycle = rig.lifecycle("events")

    handle = lifecycle.launch(agent="level3", goal="events")
    rig.result(lifecycle, handle)
    events = list(lifecycle.events(handle))

    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert len(of_kind(events, EventType.RUN_CREATED)) == 1 + CHILDREN
    suspended = of_kind(events, EventType.RUN_SUSPENDED)
    assert [(event.run_id, event.data["open"]) for event in suspended] == [(handle.subagent_id, CHILDREN)]
    assert len(of_kind(events, EventType.RUN_RESUMED)) == 1
    # The calls' results stand in the order of the calls, whoever came first.
    asked = [recorded.request for recorded in rig.model.requests("level3") if recorded.request]
    [last] = [request for request in asked if request.turn == 1 and request.messages[0].text == "events"]
    assert [result.text for result in last.results] == [f"wrote events.{n}" for n in range(CHILDREN)]


def test_a_chain_of_tools_that_launch_and_wait_needs_one_slot_only(rig: RunRig) -> None:
    rig.model.script("link0").call("hand_on", {"agent": "link1", "task": "one"}).then("0 heard ${results}")
    rig.model.script("link1").call("hand_on", {"agent": "link2", "task": "two"}).then("1 heard ${results}")
    rig.model.script("link2").call("append", {"line": "end"}).then("2 heard ${results}")
    lifecycle = rig.lifecycle("chain")

    handle = lifecycle.launch(agent="link0", goal="go")
    result = rig.result(lifecycle, handle)

    assert result.summary == "0 heard SUCCEEDED: 1 heard SUCCEEDED: 2 heard wrote end"
    assert [node.depth for node in lifecycle.tree(handle)] == [0, 1, 2]
    assert [line.split()[1] for line in rig.ledger()].count("end") == 1


def test_chains_side_by_side_do_not_starve_each_other(rig: RunRig) -> None:
    lifecycle = rig.lifecycle("chains")

    handles = lifecycle.launch_many([{"agent": "link0", "goal": f"go {n}"} for n in range(6)])

    assert {rig.result(lifecycle, handle).terminal_state for handle in handles} == {SubagentState.SUCCEEDED}
