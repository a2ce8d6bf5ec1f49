"""A tree of runs as a reader sees it: folded from its events, with each run's own record on top."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from retinue.client.reading.answers import usage_of
from retinue.contract import Event, EventType, Phase, SubagentState, Usage
from retinue.contract.records import record_of
from retinue.store.operations.reading import RunView


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentNode:
    """One run of a tree."""

    run_id: str
    agent: str
    parent_id: str | None  # None = the tree's root
    state: SubagentState
    phase: Phase = Phase.NONE
    depth: int = 0  # the root's is 0
    usage: Usage | None = None  # of the run itself, without its children; None = unknown
    # Numbers from the root down; the order of nodes tells it.
    path: str = field(default="0/", repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "run_id": self.run_id,
            "agent": self.agent,
            "parent_id": self.parent_id,
            "state": self.state.value,
            "phase": self.phase.value,
            "depth": self.depth,
            "usage": None if self.usage is None else self.usage.to_dict(),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> SubagentNode:
        """The node that to_dict() described.

        Raises:
            SubagentLifecycleError: It is none.
        """
        return record_of(cls, value, state=SubagentState, phase=Phase, usage=Usage.from_dict)


class TreeFold:
    """The runs of a tree, event by event. What has no record any more is told by its events alone.

    Args:
        events: From the first one on, in order.
    """

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._nodes: dict[str, SubagentNode] = {}
        for event in events:
            self.add(event)

    def add(self, event: Event) -> None:
        """Takes the next event."""
        data = event.data
        if event.type is EventType.RUN_CREATED:
            path = str(data["path"])
            parent = data["parent_id"]
            self._nodes[event.run_id] = SubagentNode(
                run_id=event.run_id,
                agent=str(data["agent"]),
                parent_id=None if parent is None else str(parent),
                state=SubagentState.PENDING,
                phase=Phase.QUEUED,
                depth=path.count("/") - 1,
                usage=Usage(),
                path=path,
            )
            return
        node = self._nodes.get(event.run_id)
        if node is not None:
            self._nodes[event.run_id] = _moved(node, event)

    def run_ids(self, under: str) -> tuple[str, ...]:
        """The run and all its descendants, parents first and in the order of their launch."""
        top = self._nodes.get(under)
        if top is None:
            return ()
        below = [node for node in self._nodes.values() if node.path.startswith(top.path)]
        return tuple(node.run_id for node in sorted(below, key=_order))

    def nodes(self, run_ids: Sequence[str], views: Mapping[str, RunView | None]) -> tuple[SubagentNode, ...]:
        """The nodes of these runs.

        Args:
            views: Each run's record; None = it has expired.
        """
        return tuple(_completed(self._nodes[run_id], views.get(run_id)) for run_id in run_ids)


def _moved(node: SubagentNode, event: Event) -> SubagentNode:
    match event.type:
        case EventType.RUN_STARTED:
            return replace(node, state=SubagentState.STARTING, phase=Phase.CLAIMED)
        case EventType.MODEL_STARTED:
            return replace(node, state=SubagentState.RUNNING, phase=Phase.MODEL_CALL)
        case EventType.MODEL_FINISHED:
            used = Usage(
                model_calls=1,
                input_tokens=_count(event, "input_tokens"),
                output_tokens=_count(event, "output_tokens"),
            )
            return replace(node, usage=(node.usage or Usage()) + used)
        case EventType.TOOL_FINISHED:
            used = Usage(tool_calls=1, tools={str(event.data["tool"]): 1})
            return replace(node, usage=(node.usage or Usage()) + used)
        case EventType.RUN_SUSPENDED:
            return replace(node, phase=Phase(str(event.data["phase"])))
        case EventType.RUN_RESUMED:
            return replace(node, phase=Phase.QUEUED)
        case EventType.RUN_HANDED_OFF:
            return replace(node, agent=str(event.data["to"]))
        case EventType.RUN_FINISHED:
            return replace(node, state=SubagentState(str(event.data["state"])), phase=Phase.NONE)
        case _:
            return node


def _completed(node: SubagentNode, view: RunView | None) -> SubagentNode:
    if view is None:
        return node
    record = view.record
    return replace(node, agent=record.agent, state=view.state, phase=record.phase, usage=usage_of(record))


def _count(event: Event, key: str) -> int:
    value = event.data.get(key)
    return value if isinstance(value, int) else 0


def _order(node: SubagentNode) -> tuple[int, ...]:
    return tuple(int(number) for number in node.path.split("/") if number)
