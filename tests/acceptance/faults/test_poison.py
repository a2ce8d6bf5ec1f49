"""Runs that take their process with them: each ends as lost, and costs its neighbours nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.run_rig import RunRig, of_kind, run_rig

from retinue.client import SubagentLifecycle
from retinue.contract import ErrorClassification, EventType, SubagentHandle, SubagentState
from retinue.testing.scripts import Match
from retinue.testing.workers import worker_environment

POISONS = ("segfault", "leave", "outgrow")
AT_MODEL, AT_TOOL = 197, 3
LONG_S = 100.0


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[RunRig]:
    """A store and a model, and no worker yet."""
    with run_rig(tmp_path, agents="faults.poison_agents") as rig:
        for name in (*POISONS, "exhaust"):
            script = rig.model.script("poisonous", when=Match(user_contains=name))
            script.call(name).then("survived ${results}")
        rig.model.script("neighbour", when=Match(user_contains="think")).say("thought").hold("thought")
        rig.model.script("neighbour").call("rest").then("${results}")
        yield rig


def neighbours(
    rig: RunRig, lifecycle: SubagentLifecycle, thinking: int, resting: int
) -> list[SubagentHandle]:
    """So many runs that wait for their model, and so many that are in a tool."""
    handles: list[SubagentHandle] = []
    for goal, count in (("think", thinking), ("rest", resting)):
        for start in range(0, count, 100):
            request = {"agent": "neighbour", "goal": goal}
            handles += lifecycle.launch_many([request] * min(100, count - start))
    rig.wait_until(lambda: len(rig.ledger()) == resting, "some rest")
    rig.wait_until(lambda: rig.model.in_flight("neighbour") == thinking, "some think")
    return handles


def let_go(rig: RunRig) -> None:
    """Lets the neighbours go on."""
    rig.trace("go").touch()
    rig.model.release("thought")


def losses(lifecycle: SubagentLifecycle, handle: SubagentHandle) -> Counter[object]:
    """How many attempts were lost, counted ones and others."""
    lost = of_kind(list(lifecycle.events(handle)), EventType.ATTEMPT_LOST)
    return Counter(event.data["counted"] for event in lost)


def test_poison_is_lost_alone_and_its_two_hundred_neighbours_finish(rig: RunRig) -> None:
    lifecycle = rig.lifecycle()
    first = rig.worker(concurrency=300)
    handles = neighbours(rig, lifecycle, AT_MODEL, AT_TOOL)
    poison = lifecycle.launch_many([{"agent": "poisonous", "goal": name} for name in POISONS])
    rig.wait_until(lambda: len(rig.ledger()) == AT_TOOL + len(POISONS), "all are in their tools")
    rig.trace("strike").touch()
    first.wait(LONG_S)
    second = rig.worker(concurrency=300)
    let_go(rig)

    for handle in poison:
        result = rig.result(lifecycle, handle, timeout_s=LONG_S)
        assert result.terminal_state is SubagentState.FAILED
        assert result.error_classification is ErrorClassification.WORKER_LOST
        assert losses(lifecycle, handle)[True] == 3
    for handle in handles:
        rig.succeeded(lifecycle, handle, timeout_s=LONG_S)
    counted = Counter(losses(lifecycle, handle)[True] for handle in handles)
    assert counted == {0: AT_MODEL, 1: AT_TOOL}, "who waits for a model is no suspect"
    assert second.running, "the poison died alone"
    check_letters(rig, lifecycle, {handle.subagent_id for handle in poison})


def check_letters(rig: RunRig, lifecycle: SubagentLifecycle, lost: set[str]) -> None:
    """What was lost, and nothing else, lies in the dead letters, and can be replayed or thrown away there."""

    def dlq(*words: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "retinue.cli", "dlq", *words, "--json"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            env=worker_environment({"store_url": rig.server.url}),
        )
        return json.loads(done.stdout)

    assert {letter["run_id"] for letter in dlq("list")["dead_letters"]} == lost
    first, second, third = sorted(lost)
    assert dlq("show", first)["request"]["goal"] in POISONS
    assert dlq("discard", second) == {"discarded": True}
    again = dlq("replay", third)
    assert lifecycle.status(again).replays == third
    assert lifecycle.cancel(again).accepted
    assert [letter.run_id for letter in lifecycle.dead_letters()] == [first]


def test_a_run_that_takes_all_memory_ends_and_so_do_its_neighbours(rig: RunRig) -> None:
    lifecycle = rig.lifecycle()
    rig.worker(concurrency=50)
    handles = neighbours(rig, lifecycle, 10, 3)
    hoarder = lifecycle.launch(agent="poisonous", goal="exhaust")
    rig.wait_until(lambda: len(rig.ledger()) == 4, "the hoarder is at it")
    rig.worker(concurrency=50)
    let_go(rig)

    rig.result(lifecycle, hoarder, timeout_s=LONG_S)
    for handle in handles:
        rig.succeeded(lifecycle, handle, timeout_s=LONG_S)
