"""Hooks: functions of the application that a worker calls at points of a run's life.

    from retinue.agents import RunStopped, on_stop

    @on_stop
    async def count(stopped: RunStopped) -> None:
        metrics.add(stopped.agent, stopped.state)

They stand at the top level of a module of agents, as agents and tools do.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, Generic, TypeVar

from pydantic import JsonValue

from retinue.contract import DeclarationError, ErrorClassification, SubagentState, Usage

E = TypeVar("E", bound="RunMoment")


class HookPoint(StrEnum):
    """When a hook is called."""

    START = "on_start"  # before a run's first model request
    STOP = "on_stop"  # after its end, whatever ended it
    DELEGATE = "on_delegate"  # its model has launched a child
    HANDOFF = "on_handoff"  # it has gone over to another agent
    TOOL = "on_tool"  # one of its tools has run, and its result is recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMoment:
    """What every hook is told of the run.

    Args:
        tenant, session_id: Who owns it.
        run_id: Its id; a hook that may be called again recognises by it what it has done already.
        root_id: The tree's root run.
        parent_id: The parent run. None = a root.
        agent: The agent's registered name; "" = the default agent.
        depth: 0 = a root.
        attempt: How often a worker has claimed the run, this time included; 0 = never.
        metadata: As given at the launch.
    """

    tenant: str
    session_id: str
    run_id: str
    root_id: str
    parent_id: str | None
    agent: str
    depth: int
    attempt: int
    metadata: Mapping[str, JsonValue] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(RunMoment):
    """A run is about to ask its model for the first time; an object is about to run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStopped(RunMoment):
    """A run has ended.

    Args:
        state: Terminal.
        classification: Why it failed or was interrupted. None = it did not, or was cancelled.
        usage: Its own. None = not known, as of an object.
        tree_usage: With all runs below it, up to its end. None = likewise.
        created_at, started_at, ended_at: By the store's clock. started_at None = it never started.
    """

    state: SubagentState
    classification: ErrorClassification | None
    usage: Usage | None
    tree_usage: Usage | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDelegated(RunMoment):
    """The run's model has launched a child.

    Args:
        child_id: The child run.
        child_agent: Its agent's registered name.
        background: Nobody waits for it.
    """

    child_id: str
    child_agent: str
    background: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHandedOff(RunMoment):
    """The run has gone over to another agent; `agent` is the one that gave it away.

    Args:
        recipient: The registered name of the agent that goes on.
    """

    recipient: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUsed(RunMoment):
    """A tool of the run has run.

    Args:
        tool: Its name.
        iteration, call_index: Which call: the model's response, and the call within it, from 0 on.
        ok: Whether it returned, instead of failing.
        duration_seconds: How long it took.
    """

    tool: str
    iteration: int
    call_index: int
    ok: bool
    duration_seconds: float


@dataclass(frozen=True, slots=True)
class Hook(Generic[E]):
    """A declared hook; calling it calls its function.

    Args:
        point: When it is called.
        function: What is called, with one argument; it may be a coroutine function.
    """

    point: HookPoint
    function: Callable[[E], object]

    def __call__(self, moment: E, /) -> object:
        """What the function returns."""
        return self.function(moment)

    @property
    def name(self) -> str:
        """The function's, for logs."""
        return getattr(self.function, "__qualname__", type(self.function).__name__)

    @property
    def is_async(self) -> bool:
        """Whether it belongs on the event loop."""
        function = self.function
        return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - of the object, as asyncio asks it
        )


AnyHook = Hook[RunStarted] | Hook[RunStopped] | Hook[RunDelegated] | Hook[RunHandedOff] | Hook[ToolUsed]


def on_start(function: Callable[[RunStarted], object], /) -> Hook[RunStarted]:
    """Declare a hook that is called before a run's first model request, which waits for it.

    Again when the run's worker was lost, or it waited for budget, before that request was answered.

    Raises:
        DeclarationError: It cannot be called with one argument.
    """
    return _hook(HookPoint.START, function)


def on_stop(function: Callable[[RunStopped], object], /) -> Hook[RunStopped]:
    """Declare a hook that is called once a run has ended, by whatever: its worker, a cancel, a deadline.

    Once for each run; again only if the worker that calls it dies, or hangs, before it is done.

    Raises:
        DeclarationError: It cannot be called with one argument.
    """
    return _hook(HookPoint.STOP, function)


def on_delegate(function: Callable[[RunDelegated], object], /) -> Hook[RunDelegated]:
    """Declare a hook that is called when a run's model has launched a child.

    Raises:
        DeclarationError: It cannot be called with one argument.
    """
    return _hook(HookPoint.DELEGATE, function)


def on_handoff(function: Callable[[RunHandedOff], object], /) -> Hook[RunHandedOff]:
    """Declare a hook that is called when a run has gone over to another agent.

    Raises:
        DeclarationError: It cannot be called with one argument.
    """
    return _hook(HookPoint.HANDOFF, function)


def on_tool(function: Callable[[ToolUsed], object], /) -> Hook[ToolUsed]:
    """Declare a hook that is called when a tool has run and its result is recorded.

    Raises:
        DeclarationError: It cannot be called with one argument.
    """
    return _hook(HookPoint.TOOL, function)


_WANTED: Final = "a function that takes one argument"


def _hook(point: HookPoint, function: Callable[[E], object]) -> Hook[E]:
    try:
        inspect.signature(function).bind(None)
    except (TypeError, ValueError):
        raise DeclarationError(
            f"@{point} cannot call {getattr(function, '__qualname__', type(function).__name__)}",
            field="function",
            limit=_WANTED,
            mend=f"declare it as `def hook(moment): ...` under a bare @{point}",
        ) from None
    return Hook(point, function)
