"""A cancel at any instant of a fan-out: what was under way is let go, and nothing else begins.

Two worker processes; 200 trees of depth 3 with 20 children a run, which would be 8,421 runs each if they were
left alone: hours. The instant is random in the number of requests that the model has seen by then: mostly one
of the first 40, where the root's children fan out, and in each twentieth tree one of the first 300, where
leaves are at work.
"""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tests.acceptance.run_rig import RunRig, of_kind, run_rig

from retinue.client import SubagentLifecycle
from retinue.contract import Event, EventType, SubagentState, child_run_id
from retinue.store import keys

TREES = 200
CHILDREN = 20
EARLY, LATE = 40, 300
TTL_S = 10
_KEPT = ("workers", "catalogue", "keyring", "reaper", "gone")
"""What processes keep of themselves, under `retinue:`."""
_FORBIDDEN = {
    EventType.RUN_CREATED,
    EventType.RUN_STARTED,
    EventType.RUN_SUSPENDED,
    EventType.MODEL_STARTED,
    EventType.MODEL_RETRIED,
}
"""What no run of a cancelled tree does any more."""


@dataclass(frozen=True)
class Stopped:
    """A cancelled tree: when the cancel was acknowledged (epoch seconds), and its log once all had ended."""

    root_id: str
    acknowledged: float
    events: list[Event]


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    with run_rig(
        tmp_path_factory.mktemp("storm"),
        agents="control.storm_agents",
        lease_seconds=5.0,
        max_tree_children=10_000,
        result_ttl_seconds=TTL_S,
        conversation_ttl_seconds=TTL_S,
    ) as rig:
        for level in range(3):
            script = rig.model.script(f"level{level}")
            for child in range(CHILDREN):
                script.call("run_agent", {"name": f"level{level + 1}", "task": f"${{user}}.{child}"})
            script.then("all done")
        rig.model.script("level3").say("done")
        for _ in range(2):
            rig.worker(concurrency=100)
        yield rig


@pytest.mark.timeout(400)
def test_after_the_acknowledgement_only_what_had_passed_its_boundary_still_asks(rig: RunRig) -> None:
    lifecycle, rng = rig.lifecycle(), random.Random()
    trees: list[Stopped] = []
    for number in range(TREES):
        most = EARLY if number % 20 else LATE
        trees.append(stop(rig, lifecycle, str(number), round(most ** rng.random()) - 1))

    asked = requests_by_run(rig, trees)
    for tree in trees:
        check_log(tree.events)
        boundaries = Counter(event.run_id for event in of_kind(tree.events, EventType.MODEL_STARTED))
        for run_id in {event.run_id for event in tree.events}:
            times = asked.pop(run_id, [])
            assert len(times) <= boundaries[run_id], "each request has passed a boundary, before the mark"
            assert sum(at > tree.acknowledged for at in times) <= 1
    assert not asked, "a run asked that was never created"


def test_no_key_is_left_of_a_tree_that_was_cancelled(rig: RunRig) -> None:
    def left() -> list[str]:
        return [key for key in rig.store.scan_iter("retinue:*", count=10_000) if not is_kept(key)]

    rig.wait_until(lambda: not left(), "every key has expired", timeout_s=3 * TTL_S)


def stop(rig: RunRig, lifecycle: SubagentLifecycle, goal: str, instant: int) -> Stopped:
    """Launches a tree, cancels it once its runs have asked so often, and waits for the end of all."""
    seen = rig.model.count()
    handle = lifecycle.launch(agent="level0", goal=goal)
    rig.model.wait_for(lambda model: model.count() - seen >= instant, timeout_s=30)
    answer = lifecycle.cancel(handle)
    acknowledged = time.time()
    assert (answer.accepted, answer.state) == (True, SubagentState.CANCEL_REQUESTED)
    tree = keys.tree_events("_", handle.subagent_id).removesuffix(":ev")
    rig.wait_until(lambda: rig.store.hget(tree, "live") == "0", "every run has ended")
    assert lifecycle.result(handle).terminal_state is SubagentState.CANCELLED
    return Stopped(handle.subagent_id, acknowledged, list(lifecycle.events(handle)))


def requests_by_run(rig: RunRig, trees: list[Stopped]) -> dict[str, list[float]]:
    """When each run has asked, in epoch seconds. A goal names the tree, and the calls that led to the run."""
    rig.model.wait_for(lambda model: model.in_flight() == 0)
    found: defaultdict[str, list[float]] = defaultdict(list)
    for recorded in rig.model.requests():
        assert recorded.request is not None
        number, *calls = recorded.request.messages[0].text.split(".")
        run_id = trees[int(number)].root_id
        for call in calls:
            run_id = child_run_id(run_id, 1, int(call), 0)
        found[run_id].append(recorded.started_at)
    return found


def check_log(events: list[Event]) -> None:
    """Asserts that the mark stands before nothing that it forbids, and that every run has its one end."""
    kinds = [event.type for event in events]
    assert not _FORBIDDEN & set(kinds[kinds.index(EventType.CANCEL_REQUESTED) :])
    ends = Counter(event.run_id for event in of_kind(events, EventType.RUN_FINISHED))
    assert ends == Counter(event.run_id for event in of_kind(events, EventType.RUN_CREATED))


def is_kept(key: str) -> bool:
    """Whether a key is no tree's."""
    name = key.removeprefix("retinue:")
    return name in _KEPT or name.startswith(("lease:", "drain:")) or name.endswith(("}:tenants", "}:queues"))
