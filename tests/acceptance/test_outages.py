"""Servers that are away: launches fail clearly and write nothing, and what was launched goes on later."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.acceptance.run_rig import RunRig, count_states, run_rig
from tests.acceptance.tree_script import (
    LEAVES,
    MODEL_CALLS,
    RUNS,
    answer,
    check_nothing_ran_twice,
    script_tree,
)

from retinue.contract import ErrorCode, SubagentLifecycleError, SubagentState
from retinue.testing.servers import PrivateServer

SOON_S = 20.0
"""By when a launch must have failed: after 3 s at the most, and what a busy machine needs."""


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    """A server whose data outlasts it, and a worker."""
    directory: Path = tmp_path_factory.mktemp("outages")
    with run_rig(directory, agents="tree_agents", appendonly=True, latency_s=0.02) as rig:
        script_tree(rig.model)
        rig.worker(concurrency=4)
        yield rig


def runs_in(rig: RunRig) -> set[str]:
    """Every key of a run that the store holds."""
    return {str(key) for key in rig.store.keys("retinue:_:*:run:*")}


@pytest.mark.parametrize("connected", [True, False], ids=["connected before", "fresh"])
def test_a_launch_without_a_store_fails_soon_and_leaves_nothing(rig: RunRig, connected: bool) -> None:
    lifecycle = rig.lifecycle(f"down-{connected}")
    if connected:
        rig.result(lifecycle, lifecycle.launch(agent="level4", goal="before"))
    before = runs_in(rig)

    rig.server.kill()
    started = time.monotonic()
    with pytest.raises(SubagentLifecycleError) as failed:
        lifecycle.launch(agent="level4", goal="never")
    took_s = time.monotonic() - started
    rig.server.start()

    assert took_s < SOON_S
    # Also on a connection that was in use just now: it had been cut before anything was sent.
    assert failed.value.code is ErrorCode.STORE_UNAVAILABLE
    assert "127.0.0.1" in str(failed.value)
    assert runs_in(rig) == before
    assert rig.result(lifecycle, lifecycle.launch(agent="level4", goal="after")).summary == "wrote after"


@pytest.mark.parametrize("survives", [True, False], ids=["answers later", "never saw it"])
def test_a_launch_whose_outcome_is_unknown_hands_out_the_handle_that_tells(
    rig: RunRig, survives: bool
) -> None:
    lifecycle = rig.lifecycle(f"frozen-{survives}")
    rig.result(lifecycle, lifecycle.launch(agent="level4", goal="before"))
    before = runs_in(rig)

    rig.server.pause()
    started = time.monotonic()
    with pytest.raises(SubagentLifecycleError) as failed:
        lifecycle.launch(agent="level4", goal="perhaps")
    took_s = time.monotonic() - started
    if survives:
        rig.server.resume()
    else:
        rig.server.kill()
        rig.server.start()

    assert took_s < SOON_S
    assert failed.value.code is ErrorCode.LAUNCH_UNKNOWN
    handle = failed.value.handle
    assert handle is not None
    if survives:
        assert rig.result(lifecycle, handle).summary == "wrote perhaps"
        assert {key.split(":run:")[1].split(":")[0] for key in runs_in(rig) - before} == {handle.subagent_id}
    else:
        assert lifecycle.status(handle).state is SubagentState.UNKNOWN
        assert runs_in(rig) == before


@pytest.mark.parametrize("crash", [False, True], ids=["restarted", "killed"])
def test_a_store_that_is_restarted_in_the_middle_of_a_tree_does_not_disturb_it(
    rig: RunRig, crash: bool
) -> None:
    goal = f"restart-{crash}"
    lifecycle, before, lines = rig.lifecycle(goal), rig.model.count(), len(rig.ledger())

    handle = lifecycle.launch(agent="level0", goal=goal)
    rig.model.wait_for(lambda model: model.count() - before >= 80, timeout_s=30)
    if crash:
        rig.server.kill()
        rig.server.start()
    else:
        rig.server.restart()
    result = rig.result(lifecycle, handle)

    assert result.summary == answer(goal)
    assert count_states(lifecycle.tree(handle)) == {"SUCCEEDED": RUNS}
    assert rig.model.count() - before == MODEL_CALLS
    assert len(rig.ledger()) - lines == LEAVES
    check_nothing_ran_twice(rig, lifecycle, handle)


def test_a_tree_goes_on_after_the_store_was_away_for_longer_than_a_lease(rig: RunRig) -> None:
    lifecycle, before = rig.lifecycle("long"), rig.model.count()

    handle = lifecycle.launch(agent="level0", goal="long")
    rig.model.wait_for(lambda model: model.count() - before >= 80, timeout_s=30)
    rig.server.kill()
    # Two leases long: the worker must take it that others hold its runs now.
    rig.workers[0].wait_for_log(r"lease\.lost", timeout_s=20)
    rig.server.start()
    result = rig.result(lifecycle, handle, timeout_s=60)

    assert result.terminal_state is SubagentState.SUCCEEDED
    assert count_states(lifecycle.tree(handle)) == {"SUCCEEDED": RUNS}
    check_nothing_ran_twice(rig, lifecycle, handle)


def test_a_launch_without_a_broker_succeeds_and_the_run_starts_once_there_is_one(tmp_path: Path) -> None:
    with ExitStack() as stack:
        broker = stack.enter_context(PrivateServer("valkey"))
        rig = stack.enter_context(run_rig(tmp_path, agents="tree_agents", broker_url=broker.url))
        script_tree(rig.model)
        rig.worker(concurrency=4)
        lifecycle = rig.lifecycle()
        tree = rig.result(lifecycle, lifecycle.launch(agent="level2", goal="before"))
        assert tree.summary == answer("before", 2)

        broker.kill()
        started = time.monotonic()
        handle = lifecycle.launch(agent="level2", goal="after")
        assert time.monotonic() - started < SOON_S
        assert lifecycle.status(handle).state is SubagentState.PENDING
        broker.start()

        assert rig.result(lifecycle, handle).summary == answer("after", 2)
