"""How far a group may go, and calls in strict order, on a worker with narrow settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.run_rig import RunRig, run_rig

from retinue.contract import ErrorClassification, SubagentState
from retinue.testing import Call, Match, ScriptedRequest, Turn
from retinue.testing.scripts import Script


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    """A worker with one slot."""
    directory: Path = tmp_path_factory.mktemp("limits")
    groups = {"max_rounds": 3, "max_handoffs": 1, "max_depth": 1}
    with run_rig(directory, agents="swarm_agents", groups=groups, parallel_calls=False) as rig:
        rig.worker(concurrency=1)
        yield rig


def says(rig: RunRig, member: str) -> Script:
    return rig.model.script_where(member, Match(system_contains=f"Role: {member};"))


def send(recipient: str, message: str) -> Call:
    return Call("send_message", {"recipient": recipient, "message": message})


def note(line: str) -> Call:
    return Call("note", {"line": line})


def test_a_group_that_sends_more_messages_than_it_may_is_interrupted_with_its_last_text(rig: RunRig) -> None:
    lifecycle = rig.lifecycle("rounds")

    def front(request: ScriptedRequest) -> Turn:
        # Two messages a turn: the second of the second turn is one too many.
        calls = (send("never sums", "more"), send("never words", "more"))
        return Turn(text=f"after {len(request.results)}", calls=calls)

    says(rig, "never front").reply(front)
    says(rig, "never sums").reply(lambda request: "sum")
    says(rig, "never words").reply(lambda request: "word")

    handle = lifecycle.launch(agent="never", goal="Go on.")
    result = rig.result(lifecycle, handle)

    assert result.terminal_state is SubagentState.INTERRUPTED
    assert result.error_classification is ErrorClassification.MAX_ITERATIONS
    assert result.error_message is not None
    assert "limit of 3 messages" in result.error_message
    assert "groups.max_rounds" in result.error_message
    assert result.summary == "after 2"
    assert len(lifecycle.tree(handle)) == 1 + 3


def test_a_member_too_deep_is_interrupted_and_whoever_asked_it_is_told(rig: RunRig) -> None:
    lifecycle = rig.lifecycle("depth")
    says(rig, "optional front").then(Turn(calls=(send("optional sums", "Deeper."),))).then("${results}")
    says(rig, "optional sums").then(Turn(text="I ask.", calls=(send("optional words", "Deeper."),)))

    result = rig.result(lifecycle, lifecycle.launch(agent="optional", goal="Go."))

    assert result.terminal_state is SubagentState.SUCCEEDED
    assert result.summary is not None
    assert result.summary.startswith("[MAX_ITERATIONS]")
    assert "groups.max_depth" in result.summary
    assert result.summary.endswith("I ask.")


def test_without_parallel_calls_a_turn_is_worked_off_in_its_order(rig: RunRig) -> None:
    lifecycle = rig.lifecycle("order")
    calls = (note("first"), send("strict sums", "Note it."), note("third"))
    says(rig, "strict front").then(Turn(calls=calls)).then("${results}")
    says(rig, "strict sums").then(Turn(calls=(note("second"),))).then("${results}")

    result = rig.result(lifecycle, lifecycle.launch(agent="strict", goal="Go."))

    # The third ran although another attempt had recorded its response: it had not begun.
    assert result.summary == "noted first; noted second; noted third"
    assert [line.split()[1] for line in rig.ledger()] == ["first", "second", "third"]
