"""The events of a tree's log: a closed list of types, each with its fixed payload keys.

The store writes them (one per transition, in the transition's own script); this module only names and
reads them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from .errors import StoreReplyError
from .records import parsed

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class EventType(StrEnum):
    """What can happen to a run."""

    RUN_CREATED = "run.created"
    RUN_STARTED = "run.started"
    RUN_SUSPENDED = "run.suspended"
    RUN_RESUMED = "run.resumed"
    RUN_HANDED_OFF = "run.handed_off"
    RUN_FINISHED = "run.finished"
    MODEL_STARTED = "model.started"
    MODEL_FINISHED = "model.finished"
    MODEL_RETRIED = "model.retried"
    TOOL_STARTED = "tool.started"
    TOOL_FINISHED = "tool.finished"
    TOOL_PROGRESS = "tool.progress"  # goes to the run's own trimmed log, not to the tree's
    STEER_QUEUED = "steer.queued"
    STEER_DELIVERED = "steer.delivered"
    STEER_MISSED = "steer.missed"
    CANCEL_REQUESTED = "cancel.requested"  # kind: cancel, or interrupt
    APPROVAL_REQUESTED = "approval.requested"
    APPROVAL_DECIDED = "approval.decided"
    INPUT_REQUESTED = "input.requested"
    INPUT_ANSWERED = "input.answered"
    BUDGET_WARNING = "budget.warning"
    BUDGET_PAUSED = "budget.paused"
    ATTEMPT_LOST = "attempt.lost"


_ASKED: Final = frozenset(
    {"iteration", "index", "tool", "call_id", "arguments", "argument_hash", "expires_ms", "audience"}
)
# decision: approved, denied, answered, expired, or withdrawn by the run's end.
_DECIDED: Final = frozenset({"iteration", "index", "decision", "reason"})

EVENT_KEYS: Final[Mapping[EventType, frozenset[str]]] = MappingProxyType(
    {
        EventType.RUN_CREATED: frozenset({"agent", "parent_id", "path"}),
        EventType.RUN_STARTED: frozenset({"attempt", "process"}),
        EventType.RUN_SUSPENDED: frozenset({"phase", "open"}),
        EventType.RUN_RESUMED: frozenset({"wakeup"}),
        EventType.RUN_HANDED_OFF: frozenset({"from", "to"}),
        EventType.RUN_FINISHED: frozenset({"state", "classification"}),
        EventType.MODEL_STARTED: frozenset({"iteration"}),
        EventType.MODEL_FINISHED: frozenset({"iteration", "input_tokens", "output_tokens"}),
        EventType.MODEL_RETRIED: frozenset({"iteration", "reason", "delay_ms"}),
        EventType.TOOL_STARTED: frozenset({"iteration", "index", "tool"}),
        EventType.TOOL_FINISHED: frozenset({"iteration", "index", "tool", "ok", "duration_ms"}),
        EventType.TOOL_PROGRESS: frozenset({"index", "message"}),
        EventType.STEER_QUEUED: frozenset({"steer"}),
        EventType.STEER_DELIVERED: frozenset({"steer", "iteration"}),
        EventType.STEER_MISSED: frozenset({"steer", "text"}),
        EventType.CANCEL_REQUESTED: frozenset({"kind", "reason"}),
        EventType.APPROVAL_REQUESTED: _ASKED,
        EventType.APPROVAL_DECIDED: _DECIDED,
        EventType.INPUT_REQUESTED: _ASKED,
        EventType.INPUT_ANSWERED: _DECIDED,
        EventType.BUDGET_WARNING: frozenset({"name", "used", "limit"}),
        EventType.BUDGET_PAUSED: frozenset({"name", "used", "limit"}),
        EventType.ATTEMPT_LOST: frozenset({"attempt", "process", "counted"}),
    }
)


class Event(BaseModel):
    """One entry of a tree's log."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    sequence: int  # position in the log, from 1 on; with the tree it identifies the event
    type: EventType
    run_id: str
    at: datetime  # aware, UTC, to the millisecond
    data: dict[str, JsonValue] = Field(default_factory=dict, repr=False)  # keys as in EVENT_KEYS

    @classmethod
    def from_json(cls, sequence: int, raw: str | bytes) -> Event:
        """Read an entry as the store keeps it: ``{"e": type, "r": run id, "t": ms, ...payload}``.

        Args:
            sequence: the entry's position in the log.
            raw: the stored JSON text.

        Raises:
            StoreReplyError: the text is no event. Its content is not repeated in the message.
        """
        try:
            entry = json.loads(raw)
            event_type = EventType(entry.pop("e"))
            run_id = entry.pop("r")
            at = _EPOCH + timedelta(milliseconds=int(entry.pop("t")))
            return cls(sequence=sequence, type=event_type, run_id=run_id, at=at, data=entry)
        except (ValueError, TypeError, AttributeError, LookupError, OverflowError, RecursionError) as fault:
            kind = type(fault).__name__
        raise StoreReplyError(f"entry {sequence} of the event log cannot be read ({kind})")

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; ``at`` in ISO 8601."""
        return self.model_dump(mode="json")

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Event:
        """The event that to_dict() described.

        Raises:
            SubagentLifecycleError: It is none, or of a type that this release does not know.
        """
        return parsed(cls, value, cls.model_validate)
