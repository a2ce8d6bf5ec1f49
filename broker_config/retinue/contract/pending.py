"""What a run asks of a human: requests for approval or input, and what became of a decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pydantic import JsonValue

from .ids import is_run_id
from .records import record_of


class RequestKind(StrEnum):
    """What is asked."""

    APPROVAL = "approval"  # may this tool be called with these arguments?
    INPUT = "input"  # what is this call's result?


class Audience(StrEnum):
    """Who is asked. Whoever has a handle of the run, or of one above it, may decide either way."""

    USER = "user"  # a human
    PARENT = "parent"  # the model of the run that started it in the background


class WaitUntil(StrEnum):
    """What a wait waits for."""

    END = "end"  # of the run
    ASKED = "asked"  # the same, or the run, or one below it, asks a human or waits for a raise of its budget


class DecisionRefusal(StrEnum):
    """Why a decision was not accepted."""

    UNKNOWN = "unknown"  # no such run or request for this caller
    DECIDED = "decided"  # somebody decided it before
    EXPIRED = "expired"  # nobody decided it in time, which denied it
    CANCELLED = "cancelled"  # the run, or one above it, is cancelled
    ENDED = "ended"  # the run has ended
    WRONG_KIND = "wrong_kind"  # only an approval is approved, only an input answered


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRequest:
    """Something that a run waits for a human, or the model that started it, to decide."""

    request_id: str  # what approve, deny and answer take
    run_id: str  # the run that asks: the handle's, or one below it
    kind: RequestKind
    agent: str  # the asking run's active agent
    tool: str
    arguments: Mapping[str, JsonValue] = field(repr=False)  # exactly what the call would be made with
    argument_hash: str  # SHA-256 of the arguments' canonical JSON: an approval is for these alone
    call_id: str  # the model API's own id of the call
    asked_at: float  # epoch seconds
    expires_at: float  # epoch seconds; undecided by then = denied
    audience: Audience = Audience.USER

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "request_id": self.request_id,
            "run_id": self.run_id,
            "kind": self.kind.value,
            "agent": self.agent,
            "tool": self.tool,
            "arguments": dict(self.arguments),
            "argument_hash": self.argument_hash,
            "call_id": self.call_id,
            "asked_at": self.asked_at,
            "expires_at": self.expires_at,
            "audience": self.audience.value,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> PendingRequest:
        """The request that to_dict() described.

        Raises:
            SubagentLifecycleError: It is none.
        """
        return record_of(cls, value, kind=RequestKind, audience=Audience)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentDecision:
    """What became of an approval, a denial or an answer."""

    accepted: bool
    reason: DecisionRefusal | None = None  # why it was not accepted; None = it was

    @classmethod
    def unknown(cls, handle: object = None) -> SubagentDecision:
        """The answer for a handle or a request that leads nowhere; it does not carry the handle."""
        return cls(accepted=False, reason=DecisionRefusal.UNKNOWN)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"accepted": self.accepted, "reason": None if self.reason is None else self.reason.value}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> SubagentDecision:
        """The decision that to_dict() described.

        Raises:
            SubagentLifecycleError: It is none.
        """
        return record_of(cls, value, reason=DecisionRefusal)


def request_id(run_id: str, slot: str) -> str:
    """The id under which a call's request is decided.

    Args:
        slot: the call's place in its run, iteration:index.
    """
    return f"{run_id}/{slot}"


def parse_request_id(value: object) -> tuple[str, str] | None:
    """Run id and slot of a request id; None = it is none."""
    if not isinstance(value, str):
        return None
    run_id, _, slot = value.partition("/")
    iteration, _, index = slot.partition(":")
    return (run_id, slot) if is_run_id(run_id) and _is_count(iteration) and _is_count(index) else None


def _is_count(text: str) -> bool:
    return len(text) <= 9 and text.isascii() and text.isdecimal()
