"""What the lifecycle calls answer, except for the result: small frozen records.

Each has `unknown()`, the answer for a handle that is malformed, forged, foreign or expired: the calls
answer so at once and never raise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from .budget import BudgetStatus
from .classification import ErrorClassification
from .handle import SubagentHandle, coerce_handle
from .records import record_of
from .states import Phase, SubagentState
from .usage import Usage


class SteerState(StrEnum):
    """What became of a steering message."""

    QUEUED = "queued"  # accepted, and to be delivered at the next iteration boundary
    DELIVERED = "delivered"  # the model has seen it
    MISSED = "missed"  # the run ended first
    UNSUPPORTED = "unsupported"  # the run's kind of agent cannot be steered
    UNKNOWN = "unknown"  # no such run or message for this caller


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentStatus:
    """How a run stands now."""

    handle: SubagentHandle | None  # None = what was given is no handle
    state: SubagentState
    phase: Phase = Phase.NONE
    updated_at: float | None = None  # epoch seconds of the last transition; None = unknown run
    iteration: int = 0  # the last one begun; 0 = none yet
    usage: Usage | None = None  # of the run itself; None = unknown
    tree_usage: Usage | None = None  # with all runs below it; None = unknown
    limits: Mapping[str, Any] = field(default_factory=dict[str, Any])  # in force for the run, by name
    diagnostic: str | None = None  # no worker, no such handle, or an interrupt that is under way
    agent: str | None = None  # the active one; None = unknown run
    model: str | None = None  # pinned at the first boundary; None = not yet, or none
    provider: str | None = None  # likewise
    continues: str | None = None  # id of the run whose conversation it goes on with
    replays: str | None = None  # id of the run whose dead letter it was launched from
    pending: int = 0  # what the run itself asks of a human now; `pending` tells it, and of those below
    budget: BudgetStatus | None = None  # the run's own; None = none of its own

    @classmethod
    def unknown(cls, handle: object = None) -> SubagentStatus:
        """The answer for a handle that leads nowhere."""
        return cls(
            handle=coerce_handle(handle),
            state=SubagentState.UNKNOWN,
            diagnostic=ErrorClassification.UNKNOWN_HANDLE.value,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "handle": _handle_dict(self.handle),
            "state": self.state.value,
            "phase": self.phase.value,
            "updated_at": self.updated_at,
            "iteration": self.iteration,
            "usage": None if self.usage is None else self.usage.to_dict(),
            "tree_usage": None if self.tree_usage is None else self.tree_usage.to_dict(),
            "limits": dict(self.limits),
            "diagnostic": self.diagnostic,
            "agent": self.agent,
            "model": self.model,
            "provider": self.provider,
            "continues": self.continues,
            "replays": self.replays,
            "pending": self.pending,
            "budget": None if self.budget is None else self.budget.to_dict(),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> SubagentStatus:
        """The status that to_dict() described.

        Raises:
            SubagentLifecycleError: It is none.
        """
        return record_of(
            cls,
            value,
            handle=SubagentHandle.from_dict,
            state=SubagentState,
            phase=Phase,
            usage=Usage.from_dict,
            tree_usage=Usage.from_dict,
            budget=BudgetStatus.from_dict,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentTerminalState:
    """How a wait ended."""

    handle: SubagentHandle | None
    state: SubagentState
    completed: bool  # there is nothing to wait for any more
    timed_out: bool = False  # the wait's own time was over first; the run goes on
    diagnostic: str | None = None

    @classmethod
    def unknown(cls, handle: object = None) -> SubagentTerminalState:
        """The answer for a handle that leads nowhere: completed, because waiting longer is no use."""
        return cls(
            handle=coerce_handle(handle),
            state=SubagentState.UNKNOWN,
            completed=True,
            diagnostic=ErrorClassification.UNKNOWN_HANDLE.value,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "handle": _handle_dict(self.handle),
            "state": self.state.value,
            "completed": self.completed,
            "timed_out": self.timed_out,
            "diagnostic": self.diagnostic,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> SubagentTerminalState:
        """The state that to_dict() described.

        Raises:
            SubagentLifecycleError: It is none.
        """
        return record_of(cls, value, handle=SubagentHandle.from_dict, state=SubagentState)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentCancelResult:
    """What a cancel or interrupt did. Accepted is not ended: wait() or result() tells that."""

    accepted: bool
    state: SubagentState  # of an accepted cancel CANCEL_REQUESTED, else how the run stands
    unknown_handle: bool = False
    already_terminal: bool = False
    unsupported: bool = False  # an interrupt's: an object that is at work knows no boundary

    @classmethod
    def unknown(cls, handle: object = None) -> SubagentCancelResult:
        """The answer for a handle that leads nowhere; it does not carry the handle."""
        return cls(accepted=False, state=SubagentState.UNKNOWN, unknown_handle=True)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "accepted": self.accepted,
            "state": self.state.value,
            "unknown_handle": self.unknown_handle,
            "already_terminal": self.already_terminal,
            "unsupported": self.unsupported,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> SubagentCancelResult:
        """The answer that to_dict() described.

        Raises:
            SubagentLifecycleError: It is none.
        """
        return record_of(cls, value, state=SubagentState)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentPurgeResult:
    """What a purge removed. Not purged and not unknown: `live_run_id` has not ended; cancel it first."""

    purged: bool
    runs: int = 0  # records that this purge removed; others of the same tree may have expired before
    live_run_id: str | None = None  # of a run in the subtree or the conversation that goes on
    unknown_handle: bool = False  # nothing is kept (any more) under the handle

    @classmethod
    def unknown(cls, handle: object = None) -> SubagentPurgeResult:
        """The answer for a handle that leads nowhere; it does not carry the handle."""
        return cls(purged=False, unknown_handle=True)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "purged": self.purged,
            "runs": self.runs,
            "live_run_id": self.live_run_id,
            "unknown_handle": self.unknown_handle,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> SubagentPurgeResult:
        """The answer that to_dict() described.

        Raises:
            SubagentLifecycleError: It is none.
        """
        return record_of(cls, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentReconnectResult:
    """Whether a handle leads to a run, after whatever restart. Reconnecting never starts one."""

    connected: bool
    state: SubagentState
    diagnostic: str | None = None

    @classmethod
    def unknown(cls, handle: object = None) -> SubagentReconnectResult:
        """The answer for a handle that leads nowhere; it does not carry the handle."""
        return cls(
            connected=False,
            state=SubagentState.UNKNOWN,
            diagnostic=ErrorClassification.RECONNECT_UNAVAILABLE.value,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"connected": self.connected, "state": self.state.value, "diagnostic": self.diagnostic}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> SubagentReconnectResult:
        """The answer that to_dict() described.

        Raises:
            SubagentLifecycleError: It is none.
        """
        return record_of(cls, value, state=SubagentState)


@dataclass(frozen=True, slots=True, kw_only=True)
class SteerReceipt:
    """What became of one steering message, as far as is known now."""

    steer_id: str  # "" = it was not accepted, so there is nothing to ask about later
    state: SteerState
    iteration: int | None = None  # in which the model saw it; None = not delivered
    text: str | None = field(default=None, repr=False)  # of a missed one, to be sent again; else None

    @classmethod
    def unknown(cls, handle: object = None) -> SteerReceipt:
        """The answer for a handle or a message that leads nowhere; it does not carry the handle."""
        return cls(steer_id="", state=SteerState.UNKNOWN)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "steer_id": self.steer_id,
            "state": self.state.value,
            "iteration": self.iteration,
            "text": self.text,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> SteerReceipt:
        """The receipt that to_dict() described.

        Raises:
            SubagentLifecycleError: It is none.
        """
        return record_of(cls, value, state=SteerState)


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRaise:
    """What a raise of a budget did. A run that waited for it goes on by itself."""

    accepted: bool
    budget: BudgetStatus | None = None  # as it stands now; None = not accepted
    woken: int = 0  # runs that go on at once; others may follow as they have room
    unknown_handle: bool = False
    already_terminal: bool = False

    @classmethod
    def unknown(cls, handle: object = None) -> BudgetRaise:
        """The answer for a handle that leads nowhere; it does not carry the handle."""
        return cls(accepted=False, unknown_handle=True)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "accepted": self.accepted,
            "budget": None if self.budget is None else self.budget.to_dict(),
            "woken": self.woken,
            "unknown_handle": self.unknown_handle,
            "already_terminal": self.already_terminal,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> BudgetRaise:
        """The answer that to_dict() described.

        Raises:
            SubagentLifecycleError: It is none.
        """
        return record_of(cls, value, budget=BudgetStatus.from_dict)


def _handle_dict(handle: SubagentHandle | None) -> dict[str, Any] | None:
    return None if handle is None else handle.to_dict()
