"""A store that lost the last that it was told: attempts that go on where they were change nothing in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from tests.integration.store.attempt import REFUND, Attempt
from tests.integration.store.stage import Stage

from retinue.contract import ErrorClassification, SubagentState, child_run_id
from retinue.store.call import RunKey, ScriptCall
from retinue.store.operations.launching import Launched, ParentRefused
from retinue.store.replies import Ended, Passed, Queued, Recorded, RecordedResponse, Stale
from retinue.testing.servers import PrivateServer

Snapshot = dict[bytes, tuple[bytes, int]]
Step = tuple[str, Callable[[Stage, Attempt], ScriptCall[Any]]]


class Past:
    """What a server held at earlier moments.

    Args:
        server: By a client that leaves bytes as they are.
    """

    def __init__(self, server: Any) -> None:
        self._server = server
        self._moments: list[Snapshot] = []

    def note(self) -> None:
        """This moment can be gone back to."""
        names = list(self._server.scan_iter(count=10_000))
        self._moments.append(
            {name: (self._server.dump(name), max(self._server.pttl(name), 0)) for name in names}
        )

    def go_back(self, moment: int) -> None:
        self._server.flushdb()
        for name, (value, ttl_ms) in self._moments[moment].items():
            self._server.restore(name, ttl_ms, value)


@pytest.fixture
def past(store_server: PrivateServer) -> Iterator[Past]:
    client: redis.Redis = store_server.client()
    yield Past(client)
    client.close()


def child_of(attempt: Attempt) -> str:
    return child_run_id(attempt.run.run_id, 1, 1, 0)


def _launch(stage: Stage, attempt: Attempt) -> ScriptCall[Any]:
    return stage.launch_call(stage.new_child(attempt, 1), parent=attempt.as_parent(1))


def _suspend(stage: Stage, attempt: Attempt) -> ScriptCall[Any]:
    return attempt.suspend_on([("1:1", f"child:{child_of(attempt)}")])


BOUNDARY: Step = ("boundary", lambda stage, attempt: attempt.boundary())
MODEL: Step = ("model", lambda stage, attempt: attempt.model(tools=["search", "run_agent"]))
LAUNCH: Step = ("launch", _launch)
TOOL: Step = ("tool", lambda stage, attempt: attempt.tool(0))
SUSPEND: Step = ("suspend", _suspend)
HAND_OFF: Step = ("hand_off", lambda stage, attempt: attempt.hand_off())
ONE_TOOL: Step = ("one tool", lambda stage, attempt: attempt.model(tools=["search"]))
ASK: Step = ("ask", lambda stage, attempt: attempt.ask(REFUND))
NEXT: Step = ("next boundary", lambda stage, attempt: attempt.boundary(results=[0], pin=None))
ANSWER: Step = ("answer", lambda stage, attempt: attempt.model())

# What a step builds on. That a result was lost does not keep its run from waiting for a child.
NEEDS = {
    "model": {"boundary"},
    "launch": {"boundary", "model"},
    "tool": {"boundary", "model", "one tool"},
    "suspend": {"boundary", "model", "launch"},
    "one tool": {"boundary"},
    "hand_off": {"boundary", "one tool"},
    "ask": {"boundary", "one tool"},
    "next boundary": {"boundary", "one tool", "tool"},
    "answer": {"boundary", "one tool", "tool", "next boundary"},
}
PATHS = {
    "delegates": (BOUNDARY, MODEL, LAUNCH, TOOL, SUSPEND),
    "hands off": (BOUNDARY, ONE_TOOL, HAND_OFF),
    "asks": (BOUNDARY, ONE_TOOL, ASK),
    "answers": (BOUNDARY, ONE_TOOL, TOOL, NEXT, ANSWER),
}


def play(
    stage: Stage, past: Past, run: RunKey, path: tuple[Step, ...]
) -> tuple[Attempt, list[ScriptCall[Any]]]:
    """Does it all, and notes the moment before each step."""
    attempt, calls = stage.claim(run), list[ScriptCall[Any]]()
    for _, build in path:
        past.note()
        calls.append(build(stage, attempt))
        assert not isinstance(stage.run(calls[-1]), Stale | ParentRefused)
    return attempt, calls


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_what_an_attempt_does_without_what_it_did_before_is_refused_and_changes_nothing(
    stage: Stage, past: Past, path: tuple[Step, ...]
) -> None:
    attempt, calls = play(stage, past, stage.root(), path)
    names = [name for name, _ in path]
    tried = 0
    for moment in range(len(path)):
        for later in range(moment + 1, len(path)):
            if NEEDS[names[later]].isdisjoint(names[moment:later]):
                continue
            past.go_back(moment)
            before = stage.dump()
            assert isinstance(stage.run(calls[later]), Stale | ParentRefused), (names[later], names[moment])
            assert stage.dump() == before, (names[later], names[moment])
            tried += 1
    assert tried >= len(path)
    past.go_back(0)
    assert isinstance(stage.run(attempt.hand_back(times_before_end=3)), Queued)


def test_the_next_attempt_goes_on_from_what_the_store_holds(stage: Stage, past: Past) -> None:
    run = stage.root()
    attempt, calls = play(stage, past, run, PATHS["answers"])
    past.go_back(2)  # before the tool's result
    assert stage.run(calls[3]) == Stale()
    assert isinstance(stage.run(attempt.hand_back(times_before_end=3)), Queued)

    again = stage.claim(run)
    assert again.claimed.record.recorded_iteration == 1
    assert not again.claimed.journal
    assert stage.run(again.tool(0)) == Recorded()
    assert isinstance(stage.run(again.boundary(results=[0], pin=None)), Passed)
    assert isinstance(stage.run(again.model()), RecordedResponse)
    assert isinstance(stage.run(again.finish()), Ended)
    assert stage.state(run) is SubagentState.SUCCEEDED


def test_an_end_that_is_ahead_of_the_store_counts(stage: Stage, past: Past) -> None:
    """The answer is there, and nobody could ask for it more cheaply."""
    run = stage.root()
    attempt, _ = play(stage, past, run, PATHS["answers"])
    finish = attempt.finish()
    past.go_back(3)
    assert isinstance(stage.run(finish), Ended)
    assert stage.state(run) is SubagentState.SUCCEEDED


def test_a_child_that_was_lost_with_its_launch_is_not_waited_for(stage: Stage, past: Past) -> None:
    parent = stage.root()
    attempt, calls = play(stage, past, parent, PATHS["delegates"])
    past.go_back(2)  # before the launch
    assert stage.run(calls[4]) == Stale()
    stage.run(attempt.hand_back(times_before_end=3))
    again = stage.claim(parent)
    assert isinstance(stage.run(_launch(stage, again)), Launched)
    stage.run(again.tool(0))
    stage.run(_suspend(stage, again))
    stage.end(RunKey(stage.tenant, child_of(attempt)))
    assert stage.claim(parent).claimed.journal.keys() == {"1:0", "1:1"}


def test_a_run_that_is_given_back_again_and_again_within_an_iteration_fails(stage: Stage) -> None:
    run = stage.root()
    for _ in range(2):
        assert isinstance(stage.run(stage.asking(run).hand_back(times_before_end=3)), Queued)
        # Where its process only stops, nothing is counted.
        assert isinstance(stage.run(stage.asking(run).hand_back()), Queued)
    ended = stage.run(stage.asking(run).hand_back(times_before_end=3))
    assert isinstance(ended, Ended)
    assert stage.record(run).classification is ErrorClassification.INTERNAL_ERROR
