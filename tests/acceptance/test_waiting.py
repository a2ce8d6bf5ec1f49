"""Waiting for runs: by thousands outside of a worker, and in a tool, which lends its slot."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.acceptance.run_rig import RunRig, run_rig

from retinue.client import AsyncSubagentLifecycle, SubagentLifecycle
from retinue.contract import SubagentHandle, SubagentState
from retinue.testing.scripts import Script

WAITERS = 1_000
RUNS = 50
MOST_CONNECTIONS = 8


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    """A worker with one slot."""
    directory: Path = tmp_path_factory.mktemp("waiting")
    with run_rig(directory, agents="waiting_agents") as rig:
        rig.model.script("hand").say("did ${user}")
        rig.worker(concurrency=1)
        yield rig


def script(rig: RunRig, agent: str, word: str) -> Script:
    """What the agent's model says in runs with this word in their goal."""
    return rig.model.script(agent, when=lambda request: word in request.messages[0].text)


def connections(rig: RunRig) -> set[str]:
    """The server's connections."""
    return {str(client["id"]) for client in rig.store.client_list()}


def runs_that_are_held(rig: RunRig, word: str) -> list[tuple[str, SubagentHandle]]:
    """Runs of many sessions, none of which ends before the gate opens; each with its session."""
    script(rig, "hand", word).say("done").hold(word)
    launched: list[tuple[str, SubagentHandle]] = []
    for number in range(RUNS):
        session = f"{word}-{number}"
        launched.append((session, rig.lifecycle(session).launch(agent="hand", goal=word)))
    return launched


def test_a_thousand_threads_that_wait_use_few_connections(rig: RunRig) -> None:
    before = connections(rig)
    launched = runs_that_are_held(rig, "threads")
    facades = {session: rig.lifecycle(session) for session, _ in launched}
    waiting = threading.Semaphore(0)

    def wait(number: int) -> SubagentState:
        session, handle = launched[number % RUNS]
        waiting.release()
        return facades[session].wait(handle, timeout_seconds=60).state

    threading.stack_size(256 * 1024)
    try:
        with ThreadPoolExecutor(WAITERS) as pool:
            states = [pool.submit(wait, number) for number in range(WAITERS)]
            for _ in range(WAITERS):
                assert waiting.acquire(timeout=30)
            used = connections(rig) - before
            rig.model.release("threads")
            assert {future.result(60) for future in states} == {SubagentState.SUCCEEDED}
    finally:
        threading.stack_size(0)
    assert 1 <= len(used) <= MOST_CONNECTIONS
    assert len(connections(rig) - before) <= MOST_CONNECTIONS


async def test_a_thousand_coroutines_that_wait_use_few_connections(rig: RunRig) -> None:
    launched = await asyncio.to_thread(runs_that_are_held, rig, "coroutines")
    before = connections(rig)
    facades = {
        session: AsyncSubagentLifecycle(session_id=session, settings=rig.settings) for session, _ in launched
    }
    try:
        waits = [
            asyncio.create_task(facades[session].wait(handle, timeout_seconds=60))
            for session, handle in (launched[number % RUNS] for number in range(WAITERS))
        ]
        # Answered after all that the waiters asked before: so they wait by now.
        await next(iter(facades.values())).status(launched[0][1])
        used = connections(rig) - before
        rig.model.release("coroutines")
        ended = await asyncio.gather(*waits)
    finally:
        for facade in facades.values():
            await facade.close()
    assert {one.state for one in ended} == {SubagentState.SUCCEEDED}
    assert 1 <= len(used) <= MOST_CONNECTIONS


@pytest.fixture
def lifecycle(rig: RunRig) -> SubagentLifecycle:
    """A client."""
    return rig.lifecycle()


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        ("launch_both_ways", "did by the context, did by the context again, did by a facade"),
        ("launch_async", "did asynchronous"),
    ],
)
def test_a_tool_launches_by_whichever_way_and_its_children_are_its_runs(
    rig: RunRig, lifecycle: SubagentLifecycle, tool: str, expected: str
) -> None:
    script(rig, "boss", tool).call(tool, {}).then("${results}")
    handle = lifecycle.launch(agent="boss", goal=tool)
    result = rig.result(lifecycle, handle)

    assert result.summary == expected
    root, *children = lifecycle.tree(handle)
    assert {child.parent_id for child in children} == {root.run_id}
    assert len(children) == expected.count("did")


def test_the_synchronous_facade_on_the_workers_loop_is_refused_with_its_twins_name(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "boss", "wrongly").call("launch_wrongly", {}).then("${results}")
    handle = lifecycle.launch(agent="boss", goal="wrongly")
    result = rig.result(lifecycle, handle)

    assert "AsyncSubagentLifecycle" in str(result.summary)


def test_a_run_lends_one_slot_however_many_of_its_calls_wait(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "boss", "lend").call("wait_for_many", {"count": 4}).call("wait_for_many", {"count": 4}).then(
        "${results}"
    )
    script(rig, "hand", "many").say("done").pace(first_byte_after_s=0.1)
    rig.model.forget()
    handle = lifecycle.launch(agent="boss", goal="lend")
    result = rig.result(lifecycle, handle)

    assert str(result.summary).count("SUCCEEDED") == 8
    assert rig.model.peak("hand") == 1


def test_waiting_with_a_time_out_returns_in_time_and_the_run_goes_on(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "hand", "slow").say("done").hold("slow")
    handle = lifecycle.launch(agent="hand", goal="slow")

    ended = lifecycle.wait(handle, timeout_seconds=0.2)

    assert (ended.completed, ended.timed_out) == (False, True)
    assert lifecycle.result(handle).ready is False
    rig.model.release("slow")
    assert rig.result(lifecycle, handle).summary == "done"
