"""What a run has used: tokens, calls and money."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a run, or several, have used. Where nothing is known, use None instead of a Usage of zeros."""

    model_calls: int = 0  # finished model requests
    input_tokens: int = 0  # includes cached_tokens
    output_tokens: int = 0  # includes reasoning_tokens
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    tool_calls: int = 0
    tools: Mapping[str, int] = field(default_factory=dict[str, int])  # calls per tool name
    cost_usd: float | None = None  # None = unknown, because a price is; never 0 for unknown

    def __add__(self, other: Usage) -> Usage:
        """The sum of both; its cost is unknown as soon as one of them is."""
        tools = dict(self.tools)
        for name, count in other.tools.items():
            tools[name] = tools.get(name, 0) + count
        known = self.cost_usd is not None and other.cost_usd is not None
        return Usage(
            model_calls=self.model_calls + other.model_calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            tool_calls=self.tool_calls + other.tool_calls,
            tools=tools,
            cost_usd=(self.cost_usd or 0.0) + (other.cost_usd or 0.0) if known else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "model_calls": self.model_calls,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cached_tokens": self.cached_tokens,
            "reasoning_tokens": self.reasoning_tokens,
            "tool_calls": self.tool_calls,
            "tools": dict(self.tools),
            "cost_usd": self.cost_usd,
        }
