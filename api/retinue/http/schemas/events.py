"""Answers about events."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, JsonValue

from retinue.contract import EventType
from retinue.http.schemas.answer import Answer
from retinue.http.schemas.runs import RunId


class EventAnswer(Answer):
    """Something that happened to a run."""

    sequence: int = Field(description="Its place in the log of the run's tree, from 1 on.")
    type: Annotated[EventType, Field(strict=False)]
    run_id: RunId
    at: str = Field(description="ISO 8601, UTC, to the millisecond.")
    data: dict[str, JsonValue] = Field(description="Fixed members for each type.")


class GapAnswer(Answer):
    """Places of the log that hold nothing (any more) of what was, or would have been, read there."""

    from_: int = Field(alias="from", description="The first of them.")
    to: int | None = Field(description="The last; null = the whole log from there on is gone.")


class EventsAnswer(Answer):
    """A part of a log."""

    events: list[EventAnswer] = Field(description="In order, from the one after `after` on.")
    gaps: list[GapAnswer] = Field(description="Empty but for logs that expired, were purged or lost writes.")
    next_after: int = Field(description="`after` of the next page.")
