"""What a running tool may know and do: the object injected into it.

The worker fills it through plain callables, so that this package needs neither the worker nor the client.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from retinue.contract.errors import ErrorCode, SubagentLifecycleError

if TYPE_CHECKING:
    from retinue.contract import (
        SteerReceipt,
        SubagentCancelResult,
        SubagentHandle,
        SubagentResult,
        SubagentStatus,
        SubagentTerminalState,
    )

PROGRESS_MAX_CHARS: Final = 2_000
_CUT: Final = " [cut]"


class LifecycleService(Protocol):
    """What `ToolContext.subagent_lifecycle` is: the client's facade, bound to the running parent."""

    def launch(self, request: object = None, /, **keywords: object) -> SubagentHandle:
        """Launch a child of the running run."""
        ...

    def status(self, handle: object, /) -> SubagentStatus:
        """Where the child stands."""
        ...

    def wait(
        self,
        handle: object,
        /,
        timeout_seconds: float | None = None,
        *,
        until: str = "end",
    ) -> SubagentTerminalState:
        """Wait for the child's end, or until it asks a human; lends the worker's slot meanwhile."""
        ...

    def result(self, handle: object, /) -> SubagentResult:
        """The child's result, or the NOT_READY shape."""
        ...

    def steer(self, handle: object, text: str, /) -> bool:
        """Queue a message for the child's next boundary."""
        ...

    def steer_status(self, handle: object, steer_id: str, /) -> SteerReceipt:
        """What became of a steering message."""
        ...

    def cancel(self, handle: object, /, reason: str | None = None) -> SubagentCancelResult:
        """Cancel the child and everything below it."""
        ...

    def interrupt(self, handle: object, /, reason: str | None = None) -> SubagentCancelResult:
        """Stop the child alone, at its next boundary; what it has launched goes on."""
        ...


def _ignore(_message: str) -> None:
    return None


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """The run and the call that a tool works for; injected where a parameter is annotated with it.

    Args:
        run_id: the run that called the tool.
        tenant: whose run it is.
        session_id: the session that owns the run's tree.
        agent: the run's active agent.
        iteration: the model request that asked for the call, from 1 on.
        call_index: the call's place within that request's calls, from 0 on.
        working_directory: the run's directory on this worker. None = the launch asked for none.
        report_progress: where `progress` goes. Called from the tool's own OS thread or loop.
        is_cancelled: asked by `cancelled`. Called from the tool's own OS thread or loop.
        lifecycle: makes the facade bound to this run, at its first use.
    """

    run_id: str
    tenant: str
    session_id: str
    agent: str
    iteration: int
    call_index: int
    working_directory: Path | None = None
    report_progress: Callable[[str], None] = field(default=_ignore, repr=False)
    is_cancelled: Callable[[], bool] = field(default=_never, repr=False)
    lifecycle: Callable[[], LifecycleService] | None = field(default=None, repr=False)

    @property
    def idempotency_key(self) -> str:
        """``<run id>:<iteration>:<index>``: the same when the call is run again after a crash."""
        return f"{self.run_id}:{self.iteration}:{self.call_index}"

    @property
    def cancelled(self) -> bool:
        """Whether the run was cancelled, so that a long tool can stop early."""
        return self.is_cancelled()

    def progress(self, message: str) -> None:
        """Publish a line about the call's progress; blank is dropped, over 2,000 characters cut."""
        text = message.strip()
        if len(text) > PROGRESS_MAX_CHARS:
            text = text[: PROGRESS_MAX_CHARS - len(_CUT)] + _CUT
        if text:
            self.report_progress(text)

    @property
    def subagent_lifecycle(self) -> LifecycleService:
        """The lifecycle facade, bound to the running run as parent.

        Raises:
            SubagentLifecycleError: the tool was called outside of a run.
        """
        if self.lifecycle is None:
            raise SubagentLifecycleError(
                "no run is active",
                code=ErrorCode.NO_PARENT,
                mend="call it from a tool that a worker runs, or give SubagentLifecycle a session_id",
            )
        return self.lifecycle()


current_tool_context: ContextVar[ToolContext | None] = ContextVar("retinue_tool_context", default=None)
"""The context of the running tool, where the client's facade finds its parent. None = outside of a tool."""
