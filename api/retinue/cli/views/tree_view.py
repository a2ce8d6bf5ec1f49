"""A tree of runs as text, kept up to date by its events."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from retinue.client.reading.tree import SubagentNode, TreeFold
from retinue.contract import Event, EventType, Phase, Usage, task_id

Detail = Callable[[SubagentNode], str]
"""What more there is to say of a run, behind its state."""


class TreeView:
    """Collects the events of one tree.

    Args:
        root_id: the run at the top of the picture.
    """

    def __init__(self, root_id: str) -> None:
        self._root_id = root_id
        self._fold = TreeFold()
        self._processes: dict[str, list[str]] = {}
        self._wakeups: dict[str, int] = {}
        self._agents: dict[str, str] = {}

    def add(self, event: Event) -> None:
        """Takes the next event."""
        self._fold.add(event)
        match event.type:
            case EventType.RUN_CREATED:
                self._agents[event.run_id] = str(event.data["agent"])
            case EventType.RUN_STARTED:
                self._processes.setdefault(event.run_id, []).append(str(event.data["process"]))
            case EventType.RUN_RESUMED:
                wakeup = event.data["wakeup"]
                self._wakeups[event.run_id] = int(wakeup) if isinstance(wakeup, int | str) else 0
            case _:
                pass

    def agent(self, run_id: str) -> str:
        """The name of a run's agent, or its id when the event that names it was not seen."""
        return self._agents.get(run_id) or run_id

    def node(self, run_id: str) -> SubagentNode | None:
        """One run, as far as the events tell; None when they do not name it."""
        found = self._fold.run_ids(run_id)
        return self._fold.nodes(found[:1], {})[0] if found else None

    def nodes(self) -> tuple[SubagentNode, ...]:
        """The runs, parents first, as far as the events tell."""
        return self._fold.nodes(self._fold.run_ids(self._root_id), {})

    def processes(self, run_id: str) -> tuple[str, ...]:
        """The worker processes that a run was claimed by, without repetition, the first one first."""
        return tuple(dict.fromkeys(self._processes.get(run_id, ())))

    def task_ids(self, run_id: str) -> tuple[str, ...]:
        """The Celery task ids of a run's wake-ups, as far as the events tell."""
        return tuple(task_id(run_id, number) for number in range(1, self._wakeups.get(run_id, 1) + 1))


def tree_lines(nodes: Iterable[SubagentNode], detail: Detail | None = None) -> list[str]:
    """The runs as lines, indented by depth.

    Args:
        nodes: parents first.
        detail: None = what each has used.
    """
    shown = list(nodes)
    top = shown[0].depth if shown else 0
    names = [
        f"{'   ' * (node.depth - top - 1)}└─ {node.agent}" if node.depth > top else node.agent
        for node in shown
    ]
    width = max(map(len, names), default=0)
    lines = [f"{name:<{width}}  {_state(node):<26}" for name, node in zip(names, shown, strict=True)]
    say_more = detail or _used
    return [f"{line} {say_more(node)}".rstrip() for line, node in zip(lines, shown, strict=True)]


def _used(node: SubagentNode) -> str:
    return usage_text(node.usage)


def usage_text(usage: Usage | None) -> str:
    """What was used, in a few words."""
    if usage is None:
        return "usage unknown"
    tokens = f"{usage.input_tokens:,}+{usage.output_tokens:,} tokens"
    known = usage.cost_usd is not None and usage.model_calls
    cost = f", USD {usage.cost_usd:.6f}" if known else ""
    return f"{usage.model_calls} model calls, {usage.tool_calls} tool calls, {tokens}{cost}"


def total_usage(nodes: Iterable[SubagentNode]) -> Usage:
    """The sum over the runs whose usage is known; its cost is unknown as soon as that of one run is."""
    total = Usage(cost_usd=0.0)
    for node in nodes:
        total += node.usage or Usage()
    return total


def _state(node: SubagentNode) -> str:
    return str(node.state) if node.phase is Phase.NONE else f"{node.state} {node.phase}"
