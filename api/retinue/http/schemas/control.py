"""Answers to what steers, stops, decides and removes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, JsonValue

from retinue.contract import Audience, DecisionRefusal, RequestKind
from retinue.http.schemas.answer import Answer
from retinue.http.schemas.runs import RunId, State
from retinue.http.schemas.usages import BudgetAnswer


class CancelAnswer(Answer):
    """What a cancel or an interrupt did. Accepted is not ended: waiting for it tells that."""

    accepted: bool
    state: State
    unknown_handle: bool
    already_terminal: bool
    unsupported: bool


class RequestAnswer(Answer):
    """Something that a run waits for a human, or the model that started it, to decide."""

    request_id: str
    run_id: RunId = Field(description="The run that asks: this one, or one below it.")
    kind: Annotated[RequestKind, Field(strict=False)]
    agent: str
    tool: str
    arguments: dict[str, JsonValue] = Field(description="Exactly what the call would be made with.")
    argument_hash: str
    call_id: str
    asked_at: float
    expires_at: float = Field(description="Undecided by then = denied.")
    audience: Annotated[Audience, Field(strict=False)]


class PendingAnswer(Answer):
    """What a run, and those below it, ask now."""

    requests: list[RequestAnswer]


class DecisionAnswer(Answer):
    """What became of an approval, a denial or an answer."""

    accepted: bool
    reason: Annotated[DecisionRefusal, Field(strict=False)] | None = Field(
        description="Why it was not accepted."
    )


class RaiseAnswer(Answer):
    """What a raise of a budget did."""

    accepted: bool
    budget: BudgetAnswer | None
    woken: int = Field(description="Runs that go on at once.")
    unknown_handle: bool
    already_terminal: bool


class PurgeAnswer(Answer):
    """What a purge removed."""

    purged: bool
    runs: int
    live_run_id: RunId | None = Field(description="Of a run that goes on: cancel it first.")
    unknown_handle: bool
