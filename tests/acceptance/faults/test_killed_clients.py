"""Clients killed at every point of what they do: it is done wholly or not at all, and may be said again."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.run_rig import DEADLINE_S, RunRig, of_kind, run_rig

from retinue.client import SubagentLifecycle
from retinue.contract import (
    ErrorClassification,
    EventType,
    PendingRequest,
    Phase,
    SteerState,
    SubagentHandle,
    SubagentLifecycleError,
    SubagentState,
)
from retinue.testing.workers import worker_environment

_HERE = Path(__file__).parent
_SESSION = "mortal"
Deed = tuple[str, str, list[Any], dict[str, Any]]
"""Point, method of the facade, its arguments, its keywords."""


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    """One worker for all of them; the first loss of a run's worker is its end, and makes it a dead letter."""
    directory = tmp_path_factory.mktemp("clients")
    with run_rig(directory, agents="faults.client_agents", losses_before_worker_lost=1) as rig:
        for word in ("message", "cancel"):
            held = rig.model.script(
                "leaf", when=lambda asked, word=word: asked.messages[0].text.startswith(word)
            )
            held.hold(word).say("done").then("done")
        lost = rig.model.script("leaf", when=lambda asked: asked.messages[0].text.startswith("letter"))
        lost.call("wait", {}).then("${results}")
        rig.model.script("leaf").say("done")
        rig.model.script("boss").call("run_agent", {"name": "leaf", "task": "cancel ${user}"}).then(
            "${results}"
        )
        rig.model.script("clerk").call("pay", {"line": "${user}"}).then("${results}")
        rig.model.script("locator").call("where", {}).then("${results}")
        rig.worker(concurrency=32)
        yield rig


@pytest.fixture
def lifecycle(rig: RunRig) -> SubagentLifecycle:
    return rig.lifecycle(_SESSION)


def let_die(rig: RunRig, deeds: Sequence[Deed]) -> None:
    """Has a client die at the point of each of them."""
    done = subprocess.run(
        [sys.executable, str(_HERE / "mortal_client.py"), _SESSION, json.dumps(deeds)],
        env=worker_environment({"store_url": rig.server.url, "lease_seconds": 1.0}),
        stdout=subprocess.PIPE,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    assert done.stdout.splitlines() == [f"died {point}" for point, *_ in deeds]


def launch_each(
    rig: RunRig, lifecycle: SubagentLifecycle, agent: str, goals: Sequence[str], *, held: int = 0
) -> list[SubagentHandle]:
    """A run for each goal.

    Args:
        held: So many model calls must be held back then, more than before.
    """
    before = rig.model.in_flight("leaf")
    handles = lifecycle.launch_many([{"agent": agent, "goal": goal} for goal in goals])
    rig.model.wait_for(lambda model: model.in_flight("leaf") == before + held, timeout_s=DEADLINE_S)
    return list(handles)


def asked(rig: RunRig, lifecycle: SubagentLifecycle, handle: SubagentHandle) -> PendingRequest:
    """What a run asks of a human, once it does."""
    rig.wait_until(lambda: len(lifecycle.pending(handle)) == 1, "a request")
    return lifecycle.pending(handle)[0]


def test_a_launch(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    requests = {
        point: {"agent": "leaf", "goal": point, "correlation_id": point, "on_duplicate": "return"}
        for point in ("before-launch", "after-launch")
    }

    let_die(rig, [(point, "launch", [], request) for point, request in requests.items()])
    rig.wait_until(lambda: times_asked(rig, "after-launch") == 1, "it is worked on")
    assert times_asked(rig, "before-launch") == 0

    for point, request in requests.items():
        assert rig.result(lifecycle, lifecycle.launch(**request)).summary == "done"
        assert times_asked(rig, point) == 1


def test_a_message(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    points = ("before-steer", "after-steer")
    handles = launch_each(rig, lifecycle, "leaf", [f"message {point}" for point in points], held=2)

    let_die(
        rig,
        [
            (point, "send_steer", [handle.to_dict(), "be quick"], {"steer_id": "once"})
            for point, handle in zip(points, handles, strict=True)
        ],
    )
    for handle in handles:
        assert lifecycle.send_steer(handle, "be quick", steer_id="once").state is SteerState.QUEUED

    rig.model.release("message")
    for handle in handles:
        [steer] = rig.result(lifecycle, handle).steers
        assert (steer.steer_id, steer.state) == ("once", SteerState.DELIVERED)
        assert len(of_kind(list(lifecycle.events(handle)), EventType.STEER_DELIVERED)) == 1


def test_a_cancel(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    points = ("before-cancel", "after-cancel", "before-sweep", "after-sweep")
    handles = launch_each(rig, lifecycle, "boss", points, held=len(points))

    let_die(
        rig,
        [
            (point, "cancel", [handle.to_dict(), "enough"], {})
            for point, handle in zip(points, handles, strict=True)
        ],
    )

    for handle in handles[1:]:
        assert rig.result(lifecycle, handle).terminal_state is SubagentState.CANCELLED
    assert states(lifecycle, handles[0]) == [SubagentState.RUNNING] * 2
    assert lifecycle.cancel(handles[0]).accepted
    rig.result(lifecycle, handles[0])
    for handle in handles:
        rig.wait_until(
            lambda handle=handle: states(lifecycle, handle) == [SubagentState.CANCELLED] * 2,
            "the end of the whole tree",
        )
        assert len(of_kind(list(lifecycle.events(handle)), EventType.RUN_FINISHED)) == 2


def test_an_interrupt(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    points = ("before-interrupt", "after-interrupt")
    handles = launch_each(rig, lifecycle, "boss", points, held=len(points))
    for handle in handles:
        rig.wait_until(lambda handle=handle: is_in(lifecycle, handle, Phase.WAITING_CHILDREN), "the wait")

    let_die(
        rig,
        [
            (point, "interrupt", [handle.to_dict(), "enough"], {})
            for point, handle in zip(points, handles, strict=True)
        ],
    )

    assert states(lifecycle, handles[0]) == [SubagentState.RUNNING] * 2
    assert states(lifecycle, handles[1]) == [SubagentState.INTERRUPTED, SubagentState.RUNNING]
    assert lifecycle.interrupt(handles[0]).accepted
    assert lifecycle.interrupt(handles[1]).already_terminal
    for handle in handles:
        assert states(lifecycle, handle) == [SubagentState.INTERRUPTED, SubagentState.RUNNING]
        assert lifecycle.result(handle).terminal_state is SubagentState.INTERRUPTED


def test_a_raise_of_a_budget(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    points = ("before-raise_budget", "after-raise_budget", "before-wakeup", "after-wakeup")
    handles = [
        lifecycle.launch(agent="leaf", goal=f"raise {point}", budget={"tokens": 1}) for point in points
    ]
    for handle in handles:
        rig.wait_until(lambda handle=handle: is_in(lifecycle, handle, Phase.PAUSED_BUDGET), "the pause")

    let_die(
        rig,
        [
            (point, "raise_budget", [handle.to_dict()], {"tokens": 1_000_000})
            for point, handle in zip(points, handles, strict=True)
        ],
    )

    for handle in handles[1:]:
        assert rig.result(lifecycle, handle).summary == "done"
    assert is_in(lifecycle, handles[0], Phase.PAUSED_BUDGET)
    assert lifecycle.raise_budget(handles[0], tokens=1_000_000).accepted
    assert rig.result(lifecycle, handles[0]).summary == "done"
    for point in points:
        assert times_asked(rig, f"raise {point}") == 1


def test_an_approval(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    points = ("before-decide", "after-decide", "before-wakeup", "after-wakeup")
    handles = launch_each(rig, lifecycle, "clerk", points)
    requests = [asked(rig, lifecycle, handle).request_id for handle in handles]

    let_die(
        rig,
        [
            (point, "approve", [handle.to_dict(), request], {})
            for point, handle, request in zip(points, handles, requests, strict=True)
        ],
    )

    for point, handle in zip(points[1:], handles[1:], strict=True):
        assert rig.result(lifecycle, handle).summary == f"paid {point}"
    assert lifecycle.approve(handles[0], requests[0]).accepted
    assert not lifecycle.approve(handles[1], requests[1]).accepted
    assert rig.result(lifecycle, handles[0]).summary == "paid before-decide"
    assert sorted(line.split()[1] for line in rig.ledger()) == sorted(points)


def test_an_answer(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    points = ("before-answer", "after-answer")
    handles = launch_each(rig, lifecycle, "locator", points)
    requests = [asked(rig, lifecycle, handle).request_id for handle in handles]

    let_die(
        rig,
        [
            (point, "answer", [handle.to_dict(), request, "here"], {})
            for point, handle, request in zip(points, handles, requests, strict=True)
        ],
    )

    assert rig.result(lifecycle, handles[1]).summary == "here"
    assert not lifecycle.answer(handles[1], requests[1], "there").accepted
    assert lifecycle.answer(handles[0], requests[0], "there").accepted
    assert rig.result(lifecycle, handles[0]).summary == "there"


def test_what_is_done_with_a_dead_letter(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    deeds = {"before-discard": "discard", "after-discard": "discard"}
    deeds |= {"before-launch": "replay", "after-launch": "replay"}
    lost = lose_each(rig, lifecycle, [f"letter {point}" for point in deeds])

    let_die(
        rig,
        [
            (point, method, [handle.subagent_id], {})
            for (point, method), handle in zip(deeds.items(), lost, strict=True)
        ],
    )

    assert {letter.run_id for letter in lifecycle.dead_letters()} == {
        lost[0].subagent_id,
        lost[2].subagent_id,
    }
    assert [lifecycle.discard(handle) for handle in lost[:2]] == [True, False]
    with pytest.raises(SubagentLifecycleError):
        lifecycle.replay(lost[3])
    lifecycle.replay(lost[2])
    assert lifecycle.dead_letters() == ()
    replays = [status for status in lifecycle.list() if status.replays is not None]
    assert sorted(str(status.replays) for status in replays) == sorted(run.subagent_id for run in lost[2:])
    for status in replays:
        assert status.handle is not None
        assert rig.result(lifecycle, status.handle).summary == "went on"


def lose_each(rig: RunRig, lifecycle: SubagentLifecycle, goals: Sequence[str]) -> list[SubagentHandle]:
    """Runs whose worker is killed with them, so that they are given up; another worker goes on."""
    [worker] = rig.workers
    handles = lifecycle.launch_many([{"agent": "leaf", "goal": goal} for goal in goals])
    for handle in handles:
        rig.wait_for_event(lifecycle, handle, EventType.TOOL_STARTED)
    rig.worker(concurrency=32)
    worker.kill()
    for handle in handles:
        lost = rig.result(lifecycle, handle)
        assert lost.error_classification is ErrorClassification.WORKER_LOST
    rig.trace("go").touch()
    return list(handles)


def is_in(lifecycle: SubagentLifecycle, handle: SubagentHandle, phase: Phase) -> bool:
    """Whether a run is in a phase now."""
    return lifecycle.status(handle).phase is phase


def times_asked(rig: RunRig, goal: str) -> int:
    """How often a leaf's model was asked about a goal."""
    return sum(
        recorded.request is not None and recorded.request.messages[0].text == goal
        for recorded in rig.model.requests("leaf")
    )


def states(lifecycle: SubagentLifecycle, handle: SubagentHandle) -> list[SubagentState]:
    return [node.state for node in lifecycle.tree(handle)]
