"""What a run has used: tokens, calls, time and money."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .records import record_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a run, or several, have used. Where nothing is known, use None instead of a Usage of zeros."""

    model_calls: int = 0  # finished model requests
    retries: int = 0  # model requests that failed and were sent again; not among model_calls
    input_tokens: int = 0  # includes cached_tokens
    output_tokens: int = 0  # includes reasoning_tokens
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    tool_calls: int = 0
    tools: Mapping[str, int] = field(default_factory=dict[str, int])  # calls per tool name
    # Per tool name, from each call to its result, to the millisecond; calls that ran side by side all count.
    tool_seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    waiting_seconds: float = 0.0  # suspended, for children, humans or budget; a wait counts once it is over
    attempts: int = 0  # 1 for a run that was started, and 1 for each worker process that died with it
    cost_usd: float | None = None  # None = unknown, because a price is; never 0 for unknown

    def __add__(self, other: Usage) -> Usage:
        """The sum of both; its cost is unknown as soon as one of them is."""
        known = self.cost_usd is not None and other.cost_usd is not None
        return Usage(
            model_calls=self.model_calls + other.model_calls,
            retries=self.retries + other.retries,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            tool_calls=self.tool_calls + other.tool_calls,
            tools={
                name: self.tools.get(name, 0) + other.tools.get(name, 0)
                for name in (*self.tools, *other.tools)
            },
            tool_seconds={
                name: round(self.tool_seconds.get(name, 0.0) + other.tool_seconds.get(name, 0.0), 3)
                for name in (*self.tool_seconds, *other.tool_seconds)
            },
            waiting_seconds=round(self.waiting_seconds + other.waiting_seconds, 3),
            attempts=self.attempts + other.attempts,
            # In whole micro-USD, as each of them is.
            cost_usd=round((self.cost_usd or 0.0) + (other.cost_usd or 0.0), 6) if known else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "model_calls": self.model_calls,
            "retries": self.retries,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cached_tokens": self.cached_tokens,
            "reasoning_tokens": self.reasoning_tokens,
            "tool_calls": self.tool_calls,
            "tools": dict(self.tools),
            "tool_seconds": dict(self.tool_seconds),
            "waiting_seconds": self.waiting_seconds,
            "attempts": self.attempts,
            "cost_usd": self.cost_usd,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Usage:
        """The usage that to_dict() described.

        Raises:
            SubagentLifecycleError: It is none.
        """
        return record_of(cls, value)
