"""What a run has used, and how its budget stands."""

from __future__ import annotations

from typing import Annotated, NotRequired

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from retinue.contract import OnSpent
from retinue.http.schemas.answer import Answer

_EXACT = ConfigDict(extra="forbid", strict=True)

ToolCalls = Annotated[dict[str, int], Field(description="Calls per tool name.")]
ToolSeconds = Annotated[dict[str, float], Field(description="Seconds per tool name.")]


class UsageAnswer(Answer):
    """What a run, or several, have used."""

    model_calls: int = Field(description="Finished model requests.")
    retries: int = Field(description="Model requests that failed and were sent again.")
    input_tokens: int = Field(description="Includes cached_tokens.")
    output_tokens: int = Field(description="Includes reasoning_tokens.")
    cached_tokens: int
    reasoning_tokens: int
    tool_calls: int
    tools: ToolCalls
    tool_seconds: ToolSeconds
    waiting_seconds: float = Field(description="Suspended for children, humans or budget.")
    attempts: int = Field(description="1 once started, and 1 for each worker process that died with it.")
    cost_usd: float | None = Field(description="null = unknown, because a price is.")


class CapAnswer(Answer):
    """How one cap of a budget stands: tokens, USD, calls or seconds."""

    limit: float
    used: float = Field(description="By the run and all below it.")
    held: float = Field(description="Reserved for model requests that are under way.")
    left: float


@with_config(_EXACT)
class BudgetAnswer(TypedDict):
    """How a run's own budget stands: each of its caps by name."""

    input_tokens: NotRequired[CapAnswer]
    output_tokens: NotRequired[CapAnswer]
    tokens: NotRequired[CapAnswer]
    usd: NotRequired[CapAnswer]
    tool_calls: NotRequired[CapAnswer]
    wall_seconds: NotRequired[CapAnswer]
    on_spent: Annotated[OnSpent, Field(strict=False)]


@with_config(_EXACT)
class ResultUsage(TypedDict, total=False):
    """What a run used, and under `tree` with all runs below it; empty = unknown."""

    model_calls: int
    retries: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    reasoning_tokens: int
    tool_calls: int
    tools: ToolCalls
    tool_seconds: ToolSeconds
    waiting_seconds: float
    attempts: int
    cost_usd: float | None
    tree: UsageAnswer


@with_config(_EXACT)
class ToolSummary(TypedDict, total=False):
    """What a run did with tools; empty = it has not ended."""

    duration_seconds: float
    tool_calls: int
    tools: ToolCalls
    tool_seconds: ToolSeconds
