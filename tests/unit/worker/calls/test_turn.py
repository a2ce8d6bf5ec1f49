"""The calls of a response by kind, and the order in which they start."""

from __future__ import annotations

import pytest

from retinue.agents.effective.effective import EffectiveSpec, ToolSpec
from retinue.agents.registry.entry import Delegation, RosterEntry
from retinue.worker.calls.turn import CallKind, Turn
from retinue.worker.models import ToolCall

PEER = RosterEntry(name="peer", scope="team")


def tool(name: str) -> ToolSpec:
    return ToolSpec(name=name, api_name=name, toolset=name, description="", parameters={})


SPEC = EffectiveSpec(
    agent="front",
    max_iterations=5,
    tools=(tool("search"),),
    roster=(PEER,),
    handoffs=(PEER,),
    delegation=Delegation.SEND_MESSAGE,
)
OWED = SPEC.model_copy(update={"output_schema": {"type": "object", "properties": {}}})


def turn(*names: str, spec: EffectiveSpec = SPEC, lanes: dict[str, str] | None = None) -> Turn:
    """A turn of calls without arguments; `lanes`: of delegations, by call id."""
    calls = [ToolCall(f"c{n}", name, "{}") for n, name in enumerate(names)]
    return Turn.of(calls, spec, lambda call: (lanes or {}).get(call.call_id))


def kinds(*names: str, spec: EffectiveSpec = SPEC) -> list[str]:
    return [call.kind.value for call in turn(*names, spec=spec).calls]


def order(of: Turn, *, parallel: bool = True) -> list[list[int]]:
    """The batches in which a turn's calls start, each as soon as those before are answered."""
    answered: set[int] = set()
    batches: list[list[int]] = []
    while batch := of.next_batch(answered, parallel=parallel):
        batches.append([call.index for call in batch])
        answered.update(batches[-1])
    return batches


def test_each_call_is_of_one_kind_and_what_is_not_offered_is_unknown() -> None:
    names = ("search", "send_message", "nonsense", "run_agent", "handoff_conversation")
    assert kinds(*names) == ["own_tool", "delegation", "unknown", "unknown", "handoff"]
    without = SPEC.model_copy(update={"handoffs": ()})
    assert kinds("handoff_conversation", "search", spec=without) == ["unknown", "own_tool"]


@pytest.mark.parametrize("late", ["search", "send_message", "handoff_conversation", "nonsense"])
def test_whatever_follows_a_handoff_comes_too_late(late: str) -> None:
    assert kinds("search", "handoff_conversation", late) == ["own_tool", "handoff", "too_late"]
    assert [call.name for call in turn("search", "handoff_conversation", late).in_time] == [
        "search",
        "handoff_conversation",
    ]


def test_a_result_and_a_handoff_of_one_turn_exclude_each_other_and_the_first_counts() -> None:
    assert kinds("submit_result", "handoff_conversation", spec=OWED) == ["submission", "too_late"]
    assert kinds("handoff_conversation", "submit_result", spec=OWED) == ["handoff", "too_late"]


def test_a_handoff_starts_once_everything_else_of_the_turn_is_answered() -> None:
    of = turn("search", "send_message", "handoff_conversation", "search")
    assert order(of) == [[0, 1, 3], [2]]


def test_a_lane_holds_one_call_at_a_time_in_the_order_of_the_response() -> None:
    of = turn(*["send_message"] * 4, lanes={"c0": "a", "c1": "b", "c2": "a", "c3": "a"})
    assert order(of) == [[0, 1], [2], [3]]


def test_without_parallel_calls_all_start_one_by_one_in_the_order_of_the_response() -> None:
    of = turn("send_message", "search", "search", "handoff_conversation", "search")
    assert order(of, parallel=False) == [[0], [1], [2], [4], [3]]
    assert [call.kind for call in of.next_batch({0, 1, 2}, parallel=False)] == [CallKind.TOO_LATE]
