"""The closed set of reasons that a result may give for not being a success."""

from __future__ import annotations

from enum import StrEnum


class ErrorClassification(StrEnum):
    """Why a run did not succeed, or why a read found nothing. None stands for success."""

    DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED"
    MAX_ITERATIONS = "MAX_ITERATIONS"
    BUDGET_EXCEEDED = "BUDGET_EXCEEDED"
    INTERRUPT_REQUESTED = "INTERRUPT_REQUESTED"
    MODEL_RATE_LIMITED = "MODEL_RATE_LIMITED"
    MODEL_UNAVAILABLE = "MODEL_UNAVAILABLE"
    MODEL_REJECTED = "MODEL_REJECTED"
    CONTEXT_TOO_LONG = "CONTEXT_TOO_LONG"
    CONTENT_REFUSED = "CONTENT_REFUSED"
    OUTPUT_INVALID = "OUTPUT_INVALID"
    TOOL_ERROR = "TOOL_ERROR"
    AGENT_ERROR = "AGENT_ERROR"
    WORKER_LOST = "WORKER_LOST"
    INTERNAL_ERROR = "INTERNAL_ERROR"

    # Only reads answer these; no run ends with one.
    NOT_READY = "NOT_READY"
    UNKNOWN_HANDLE = "UNKNOWN_HANDLE"
    RECONNECT_UNAVAILABLE = "RECONNECT_UNAVAILABLE"
