"""A tree folded from its events."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from typing import Any

from retinue.client.reading.tree import TreeFold
from retinue.contract import Event, EventType, Phase, SubagentState
from retinue.store.operations.reading import RunView
from retinue.store.record import Record

_sequence = count(1)


def event(kind: EventType, run: str, **data: Any) -> Event:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return Event(sequence=next(_sequence), type=kind, run_id=run, at=at, data=data)


def created(run: str, parent: str | None, path: str, agent: str = "support") -> Event:
    return event(EventType.RUN_CREATED, run, agent=agent, parent_id=parent, path=path)


def test_runs_come_in_the_order_of_the_tree_not_of_the_log() -> None:
    fold = TreeFold(
        [
            created("root", None, "0/"),
            *(created(f"c{n}", "root", f"0/{n}/") for n in range(11)),
            created("g", "c2", "0/2/0/"),
        ]
    )
    assert fold.run_ids("root") == (
        "root", "c0", "c1", "c2", "g", "c3", "c4", "c5", "c6", "c7", "c8", "c9", "c10",
    )  # fmt: skip
    assert fold.run_ids("c2") == ("c2", "g")
    assert fold.run_ids("c1") == ("c1",)
    assert fold.run_ids("stranger") == ()


def test_events_alone_tell_state_phase_and_usage() -> None:
    fold = TreeFold([created("root", None, "0/")])

    def now() -> tuple[SubagentState, Phase]:
        (node,) = fold.nodes(["root"], {})
        return node.state, node.phase

    assert now() == (SubagentState.PENDING, Phase.QUEUED)
    steps = [
        (event(EventType.RUN_STARTED, "root", attempt=1, process="p"), SubagentState.STARTING, Phase.CLAIMED),
        (event(EventType.MODEL_STARTED, "root", iteration=1), SubagentState.RUNNING, Phase.MODEL_CALL),
        (
            event(EventType.MODEL_FINISHED, "root", iteration=1, input_tokens=7, output_tokens=2),
            SubagentState.RUNNING,
            Phase.MODEL_CALL,
        ),
        (
            event(EventType.RUN_SUSPENDED, "root", phase="waiting_children", open=1),
            SubagentState.RUNNING,
            Phase.WAITING_CHILDREN,
        ),
        (event(EventType.RUN_RESUMED, "root", wakeup=2), SubagentState.RUNNING, Phase.QUEUED),
        (
            event(EventType.TOOL_FINISHED, "root", iteration=1, index=0, tool="t", ok=True, duration_ms=1),
            SubagentState.RUNNING,
            Phase.QUEUED,
        ),
        (event(EventType.STEER_QUEUED, "root", steer="s"), SubagentState.RUNNING, Phase.QUEUED),
        (
            event(EventType.RUN_FINISHED, "root", state="SUCCEEDED", classification=None),
            SubagentState.SUCCEEDED,
            Phase.NONE,
        ),
    ]
    for step, state, phase in steps:
        fold.add(step)
        assert now() == (state, phase), step.type
    (node,) = fold.nodes(["root"], {"root": None})
    assert node.usage is not None
    assert (node.usage.model_calls, node.usage.input_tokens, node.usage.output_tokens) == (1, 7, 2)
    assert (node.usage.tool_calls, node.usage.tools) == (1, {"t": 1})


def test_a_handed_off_run_bears_its_new_agents_name() -> None:
    fold = TreeFold(
        [
            created("root", None, "0/"),
            event(EventType.RUN_HANDED_OFF, "root", **{"from": "support", "to": "billing"}),
        ]
    )
    assert fold.nodes(["root"], {})[0].agent == "billing"


def test_a_record_wins_over_the_events() -> None:
    fold = TreeFold([created("root", None, "0/")])
    fields = {"st": "RUNNING", "ph": "tool_call", "ag": "billing", "im": "4", "cs": "l"}
    (node,) = fold.nodes(["root"], {"root": RunView(Record(fields), under_cancel=True)})
    assert (node.state, node.phase, node.agent) == (SubagentState.CANCEL_REQUESTED, "tool_call", "billing")
    assert node.to_dict()["usage"]["model_calls"] == 4


def test_events_of_a_run_that_was_never_created_here_are_passed_over() -> None:
    assert TreeFold([event(EventType.RUN_RESUMED, "lost", wakeup=2)]).run_ids("lost") == ()
