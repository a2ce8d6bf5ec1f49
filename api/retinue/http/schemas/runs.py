"""Answers about runs: handles, states, trees, results."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, JsonValue

from retinue.contract import ErrorClassification, Phase, Role, SteerState, SubagentState
from retinue.http.schemas.answer import Answer
from retinue.http.schemas.usages import BudgetAnswer, ResultUsage, ToolSummary, UsageAnswer

# Strict models refuse an enum's value as text, which is what JSON has.
State = Annotated[SubagentState, Field(strict=False)]
_Phase = Annotated[Phase, Field(strict=False)]
_Role = Annotated[Role, Field(strict=False)]
_SteerState = Annotated[SteerState, Field(strict=False)]
_Classification = Annotated[ErrorClassification, Field(strict=False)]

RunId = Annotated[str, Field(pattern=r"^sa-p([0-5][0-9]|6[0-3])-[a-z2-7]{26}$")]


class HandleAnswer(Answer):
    """A reference to one run: pass it on unchanged, to whoever may watch and control the run."""

    contract_version: int
    subagent_id: RunId = Field(description="The run's id.")
    parent_session_id: str = Field(description="The session that owns it.")
    correlation_id: str | None
    created_at: float = Field(description="Epoch seconds.")
    provider: str | None = Field(description="As advertised at launch; null = not known then.")
    model: str | None = Field(description="As advertised at launch; null = not known then.")
    role: _Role
    depth: int = Field(description="0 = root run.")
    capability: str = Field(
        description="Proves that Retinue made the handle: a secret. `withheld` from who may only read."
    )


class LaunchedAnswer(Answer):
    """A run that was launched."""

    run_id: RunId
    handle: HandleAnswer


class LaunchedManyAnswer(Answer):
    """Runs that were launched, in the order of the requests."""

    runs: list[LaunchedAnswer]


class LimitsAnswer(Answer):
    """The limits in force for a run; null = none."""

    max_iterations: int = Field(description="Model requests.")
    max_tool_calls: int | None
    max_depth: int
    max_live_children: int
    max_tree_children: int | None
    deadline_at: float | None = Field(description="Epoch seconds.")
    seconds_left: float | None


class StatusAnswer(Answer):
    """How a run stands now."""

    handle: HandleAnswer
    state: State
    phase: _Phase = Field(description="What it is doing or waiting for; empty = it has ended.")
    updated_at: float = Field(description="Epoch seconds of the last transition.")
    iteration: int = Field(description="The last one begun; 0 = none yet.")
    usage: UsageAnswer | None = Field(description="Of the run itself; null = unknown.")
    tree_usage: UsageAnswer | None = Field(description="With all runs below it; null = unknown.")
    limits: LimitsAnswer
    diagnostic: str | None
    agent: str = Field(description="The active one.")
    model: str | None = Field(description="Pinned at the first iteration; null = not yet.")
    provider: str | None
    continues: RunId | None = Field(description="The run whose conversation it goes on with.")
    replays: RunId | None = Field(description="The run whose dead letter it was launched from.")
    pending: int = Field(description="What the run itself asks of a human now.")
    budget: BudgetAnswer | None = Field(description="The run's own; null = none of its own.")


class RunsAnswer(Answer):
    """A page of runs."""

    runs: list[StatusAnswer]
    next_cursor: str | None = Field(description="Where the next page begins; null = this was the last.")


class NodeAnswer(Answer):
    """One run of a tree."""

    run_id: RunId
    agent: str
    parent_id: RunId | None = Field(description="null = the tree's root.")
    state: State
    phase: _Phase
    depth: int
    usage: UsageAnswer | None


class TreeAnswer(Answer):
    """A run and all its descendants, parents first."""

    nodes: list[NodeAnswer]


class EndAnswer(Answer):
    """How a wait ended."""

    handle: HandleAnswer | None = Field(description="null = what was given is no handle of a known run.")
    state: State
    completed: bool = Field(description="There is nothing to wait for any more.")
    timed_out: bool = Field(description="The wait's own time was over first; the run goes on.")
    diagnostic: str | None


class EndsAnswer(Answer):
    """How a wait for several runs ended: one for each, in their order."""

    states: list[EndAnswer]


class ReceiptAnswer(Answer):
    """What became of a steering message, as far as is known now."""

    steer_id: str = Field(description="Empty = it was not accepted.")
    state: _SteerState
    iteration: int | None = Field(description="In which the model saw it; null = not delivered.")
    text: str | None = Field(description="Of a missed one, to be sent again.")


class ResultAnswer(Answer):
    """What a run came to."""

    handle: HandleAnswer | None
    terminal_state: State
    ready: bool
    summary: str | None = Field(description="The last text of the model.")
    structured_payload: JsonValue
    started_at: float | None
    completed_at: float | None
    error_classification: _Classification | None = Field(description="null = success.")
    error_message: str | None
    usage_metadata: ResultUsage
    tool_execution_summary: ToolSummary
    result_hash: str | None
    content_hash: str | None
    truncated: bool = Field(description="Texts were cut; GET .../text has the whole.")
    metadata: dict[str, JsonValue] = Field(description="The request's own, given back.")
    steers: list[ReceiptAnswer]


class ResultsAnswer(Answer):
    """What several runs came to: one for each, in their order."""

    results: list[ResultAnswer]


class TextAnswer(Answer):
    """The whole of a run's last text; null = it goes on, or said nothing."""

    text: str | None


class ReconnectAnswer(Answer):
    """Whether a handle still leads to a run."""

    connected: bool
    state: State
    diagnostic: str | None
