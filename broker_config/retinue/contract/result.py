"""The result of a run: bounded, hashed, and the same every time it is read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from .classification import ErrorClassification
from .errors import SubagentLifecycleError
from .handle import SubagentHandle, coerce_handle
from .limits import ERROR_MAX_CHARS, PAYLOAD_MAX_BYTES, SUMMARY_MAX_CHARS
from .records import parsed, record_of
from .states import TERMINAL_STATES, SubagentState
from .status import SteerReceipt


def bound_text(value: str, max_chars: int) -> tuple[str, bool]:
    """A text that fits, with a visible marker at its end if it was cut.

    Args:
        value: lone surrogates in it become U+FFFD, since they have no UTF-8 form.
        max_chars: of what is returned, marker included.

    Returns:
        The text, and whether it was cut.
    """
    clean = _encodable(value)
    if len(clean) <= max_chars:
        return clean, False
    marker = f"\n[cut: the full text has {len(clean):,} characters]"
    if len(marker) >= max_chars:
        return clean[:max_chars], True
    return clean[: max_chars - len(marker)] + marker, True


def _encodable(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentResult:
    """What a run came to. Made by ended(), not_ready() and unknown(), which keep its promises."""

    handle: SubagentHandle | None  # None = what was given is no handle
    terminal_state: SubagentState  # of a result that is not ready: the state now
    ready: bool
    summary: str | None = field(default=None, repr=False)  # the last text of the model
    structured_payload: JsonValue = field(default=None, repr=False)
    started_at: float | None = None  # epoch seconds of the first claim; None = never claimed
    completed_at: float | None = None  # epoch seconds
    error_classification: ErrorClassification | None = None  # None = success
    error_message: str | None = field(default=None, repr=False)
    # Usage.to_dict() of the run itself, and under `tree` with all runs below it until its end; {} = unknown.
    usage_metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tool_execution_summary: Mapping[str, Any] = field(default_factory=dict[str, Any])
    result_hash: str | None = None  # of everything else: proves that nobody changed it; None = not ready
    content_hash: str | None = None  # of what was achieved only: equal work, equal hash
    truncated: bool = False  # summary, payload or message were cut; the full text can be fetched
    # The request's own, given back.
    metadata: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue], repr=False)
    steers: tuple[SteerReceipt, ...] = ()

    @classmethod
    def ended(
        cls,
        handle: SubagentHandle,
        terminal_state: SubagentState,
        *,
        completed_at: float,
        started_at: float | None = None,
        summary: str | None = None,
        structured_payload: JsonValue = None,
        error_classification: ErrorClassification | None = None,
        error_message: str | None = None,
        usage_metadata: Mapping[str, Any] | None = None,
        tool_execution_summary: Mapping[str, Any] | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
        steers: tuple[SteerReceipt, ...] = (),
        truncated: bool = False,
    ) -> SubagentResult:
        """The result of a run that has ended, bounded and hashed.

        Args:
            truncated: True if the caller has cut the texts already.

        Raises:
            SubagentLifecycleError: the state is not terminal.
        """
        if terminal_state not in TERMINAL_STATES:
            raise SubagentLifecycleError(
                f"{terminal_state} is no terminal state",
                field="terminal_state",
                limit=", ".join(sorted(TERMINAL_STATES)),
                mend="use not_ready() for a run that goes on",
                handle=handle,
            )
        text, text_cut = _bound(summary, SUMMARY_MAX_CHARS)
        message, message_cut = _bound(error_message, ERROR_MAX_CHARS)
        too_large = structured_payload is not None and len(_json(structured_payload)) > PAYLOAD_MAX_BYTES
        # Half a JSON value is none: a payload is whole or absent.
        payload = None if too_large else structured_payload
        values: dict[str, Any] = {
            "handle": handle,
            "terminal_state": terminal_state,
            "ready": True,
            "summary": text,
            "structured_payload": payload,
            "started_at": started_at,
            "completed_at": completed_at,
            "error_classification": error_classification,
            "error_message": message,
            "usage_metadata": dict(usage_metadata or {}),
            "tool_execution_summary": dict(tool_execution_summary or {}),
            "content_hash": _content_hash(terminal_state, text, payload, error_classification, message),
            "truncated": truncated or text_cut or message_cut or too_large,
            "metadata": dict(metadata or {}),
            "steers": tuple(steers),
        }
        return cls(**values, result_hash=cls(**values).compute_result_hash())

    @classmethod
    def not_ready(
        cls, handle: SubagentHandle, state: SubagentState = SubagentState.UNKNOWN
    ) -> SubagentResult:
        """The answer for a run that has not ended.

        Args:
            handle: the run's.
            state: the one that the run is in.
        """
        return cls(
            handle=handle,
            terminal_state=state,
            ready=False,
            error_classification=ErrorClassification.NOT_READY,
        )

    @classmethod
    def unknown(cls, handle: object = None) -> SubagentResult:
        """The answer for a handle that leads nowhere."""
        return cls(
            handle=coerce_handle(handle),
            terminal_state=SubagentState.UNKNOWN,
            ready=False,
            error_classification=ErrorClassification.UNKNOWN_HANDLE,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        classification = self.error_classification
        return {
            "handle": None if self.handle is None else self.handle.to_dict(),
            "terminal_state": self.terminal_state.value,
            "ready": self.ready,
            "summary": self.summary,
            "structured_payload": self.structured_payload,
            "started_at": self.started_at,
            "completed_at": self.completed_at,
            "error_classification": str(classification) if classification else None,
            "error_message": self.error_message,
            "usage_metadata": dict(self.usage_metadata),
            "tool_execution_summary": dict(self.tool_execution_summary),
            "result_hash": self.result_hash,
            "content_hash": self.content_hash,
            "truncated": self.truncated,
            "metadata": dict(self.metadata),
            "steers": [receipt.to_dict() for receipt in self.steers],
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> SubagentResult:
        """The result that to_dict() described.

        Raises:
            SubagentLifecycleError: It is none, or not what its result_hash was taken of.
        """

        def make(given: Mapping[str, Any]) -> SubagentResult:
            return record_of(
                cls,
                given,
                handle=SubagentHandle.from_dict,
                terminal_state=SubagentState,
                error_classification=ErrorClassification,
                steers=lambda receipts: tuple(map(SteerReceipt.from_dict, receipts)),
            )

        made = parsed(cls, value, make)
        if made.result_hash is not None and made.compute_result_hash() != made.result_hash:
            raise SubagentLifecycleError(
                "is not what its hash was taken of", field="result_hash", mend="ask for the result again"
            )
        return made

    def compute_result_hash(self) -> str:
        """SHA-256, in hex, of to_dict() without result_hash, as ``json.dumps(..., sort_keys=True)``.

        Whoever holds the result can compute it again and compare it with result_hash.
        """
        envelope = self.to_dict()
        del envelope["result_hash"]
        return _sha256(envelope)

    def compute_content_hash(self) -> str:
        """SHA-256, in hex, of state, summary, payload, classification and message only."""
        return _content_hash(
            self.terminal_state,
            self.summary,
            self.structured_payload,
            self.error_classification,
            self.error_message,
        )


def _content_hash(
    state: SubagentState,
    summary: str | None,
    payload: JsonValue,
    classification: ErrorClassification | None,
    message: str | None,
) -> str:
    content = {
        "terminal_state": state,
        "summary": summary,
        "structured_payload": payload,
        "error_classification": classification,
        "error_message": message,
    }
    return _sha256(content)


def _sha256(value: Mapping[str, Any]) -> str:
    return hashlib.sha256(_json(value).encode()).hexdigest()


# Python's default form, ASCII escapes and all, as the contract has it: a payload that a model wrote may
# hold NaN or a lone surrogate, and reading a result must not fail over it.
_json = json.JSONEncoder(sort_keys=True).encode


def _bound(value: str | None, max_chars: int) -> tuple[str | None, bool]:
    return (None, False) if value is None else bound_text(value, max_chars)
