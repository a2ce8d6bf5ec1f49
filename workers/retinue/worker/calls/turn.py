"""The calls of one response: what kind each is of, and which of them may start now."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from retinue.agents.builtin_tools.asking import ASKING_TOOLS
from retinue.agents.builtin_tools.background import BACKGROUND_TOOLS
from retinue.agents.builtin_tools.output import SUBMIT_RESULT
from retinue.agents.builtin_tools.roster import HANDOFF, LIST_AGENTS, RUN_AGENT, SEND_MESSAGE
from retinue.agents.effective.effective import EffectiveSpec
from retinue.worker.models import ToolCall


class CallKind(StrEnum):
    """Who answers a call."""

    OWN_TOOL = "own_tool"  # a tool of the spec, run on this worker
    APPROVAL = "approval"  # such a tool, once a human approved the call
    INPUT = "input"  # the caller, by the call's id; or the model above
    DELEGATION = "delegation"  # a child run, or a word about whom to delegate to
    BACKGROUND = "background"  # a look at, or a word to, children in the background
    SUBMISSION = "submission"  # the run's result: judged once everything else is answered
    HANDOFF = "handoff"  # another agent, once everything else is answered
    TOO_LATE = "too_late"  # nobody: a call before it decides who goes on
    UNKNOWN = "unknown"  # nobody: the model is told what there is


BACKGROUND_LANE = "background"
"""Of calls that start or concern children in the background: a wait comes after the launches before it."""

_AT_THE_END = (CallKind.SUBMISSION, CallKind.HANDOFF)
"""What may end the agent's part in the run: all else that the turn asks for comes before it."""
_BUILT_IN = {
    RUN_AGENT: CallKind.DELEGATION,
    LIST_AGENTS: CallKind.DELEGATION,
    SEND_MESSAGE: CallKind.DELEGATION,
    HANDOFF: CallKind.HANDOFF,
    SUBMIT_RESULT: CallKind.SUBMISSION,
    **dict.fromkeys(BACKGROUND_TOOLS, CallKind.BACKGROUND),
    **dict.fromkeys(ASKING_TOOLS, CallKind.INPUT),
}


def kind_of(call: ToolCall, spec: EffectiveSpec) -> CallKind:
    """What kind a call is of; a built-in tool that the spec does not offer is unknown."""
    if any(tool.name == call.name for tool in spec.built_in_tools):
        return _BUILT_IN[call.name]
    tool = spec.find_tool(call.name)
    if tool is None:
        return CallKind.UNKNOWN
    if tool.kind == "client":
        # Whoever answers it has agreed to it: one question, not two.
        return CallKind.INPUT
    return CallKind.APPROVAL if tool.requires_confirmation else CallKind.OWN_TOOL


@dataclass(frozen=True, slots=True)
class TurnCall:
    """One call of a response.

    Args:
        index: Its place there, from 0 on.
        call: As the model made it.
        kind: Who answers it.
        lane: Calls of one lane are answered one after the other. None = beside all others.
    """

    index: int
    call: ToolCall
    kind: CallKind
    lane: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """All calls of a response, in its order."""

    calls: tuple[TurnCall, ...]

    @classmethod
    def of(
        cls,
        calls: Sequence[ToolCall],
        spec: EffectiveSpec,
        lane_of: Callable[[ToolCall], str | None] | None = None,
    ) -> Turn:
        """The turn of a response.

        Args:
            calls: All of them.
            spec: Whose agent made them.
            lane_of: The lane of a delegation. None = each has one of its own.
        """
        kinds = _with_late([kind_of(call, spec) for call in calls])
        return cls(
            tuple(
                TurnCall(index, call, kind, _lane(call, kind, lane_of))
                for index, (call, kind) in enumerate(zip(calls, kinds, strict=True))
            )
        )

    def next_batch(self, answered: Collection[int], *, parallel: bool = True) -> tuple[TurnCall, ...]:
        """The calls that may start now, side by side; none once all are answered.

        Args:
            answered: Places of the calls that have their result.
            parallel: False = one call at a time, in the order of the response.
        """
        still_open = [call for call in self.calls if call.index not in answered]
        others = [call for call in still_open if call.kind not in _AT_THE_END]
        first = others or still_open
        return _first_of_each_lane(first) if parallel else tuple(first[:1])

    @property
    def in_time(self) -> tuple[ToolCall, ...]:
        """The calls that no other one made pointless."""
        return tuple(asked.call for asked in self.calls if asked.kind is not CallKind.TOO_LATE)


def _lane(call: ToolCall, kind: CallKind, lane_of: Callable[[ToolCall], str | None] | None) -> str | None:
    if kind is CallKind.BACKGROUND:
        return BACKGROUND_LANE
    return lane_of(call) if lane_of and kind is CallKind.DELEGATION else None


def _with_late(kinds: Sequence[CallKind]) -> list[CallKind]:
    """Whatever follows a handoff comes too late, even a refused one; so does a handoff after the result."""
    seen: set[CallKind] = set()
    decided: list[CallKind] = []
    for kind in kinds:
        is_late = CallKind.HANDOFF in seen or (kind is CallKind.HANDOFF and CallKind.SUBMISSION in seen)
        decided.append(CallKind.TOO_LATE if is_late else kind)
        seen.add(kind)
    return decided


def _first_of_each_lane(calls: Iterable[TurnCall]) -> tuple[TurnCall, ...]:
    taken: set[str] = set()
    first: list[TurnCall] = []
    for call in calls:
        if call.lane is None:
            first.append(call)
        elif call.lane not in taken:
            taken.add(call.lane)
            first.append(call)
    return tuple(first)
