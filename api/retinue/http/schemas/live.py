"""The answer of GET /v1/live."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field

from retinue.contract import Phase
from retinue.http.schemas.answer import Answer
from retinue.http.schemas.runs import RunId, State

_EXAMPLE: Final[dict[str, Any]] = {
    "run_id": "sa-p07-abcdefghijklmnopqrstuvwxyz",
    "parent_id": None,
    "root_id": "sa-p07-abcdefghijklmnopqrstuvwxyz",
    "session_id": "customer-42",
    "agent": "support",
    "state": "RUNNING",
    "phase": "model_call",
    "depth": 0,
    "path": "0/",
    "iteration": 2,
    "input_tokens": 830,
    "output_tokens": 112,
    "usd": 0.000431,
    "created_at": 1_798_761_600.25,
    "queue": "retinue",
    "worker": "w1@alpha",
    "pending": 0,
    "deadline": None,
}


class LiveRunAnswer(Answer):
    """A live run, or an ended one that stands above live ones."""

    run_id: RunId
    parent_id: RunId | None = Field(description="null = the tree's root.")
    root_id: RunId
    session_id: str
    agent: str = Field(description="The active one.")
    state: State
    phase: Annotated[Phase, Field(strict=False)] = Field(description="Empty = it has ended.")
    depth: int = Field(description="0 = root run.")
    path: str = Field(description="Numbers from the root down, as in 0/3/.")
    iteration: int = Field(description="The last one begun; 0 = none yet.")
    input_tokens: int | None = Field(description="null = unknown, as of an object that reports nothing.")
    output_tokens: int | None
    usd: float | None = Field(description="null = unknown, because a price is.")
    created_at: float = Field(description="Epoch seconds.")
    queue: str
    worker: str | None = Field(description="Name of the worker that holds it; null = on none.")
    pending: int = Field(description="What the run itself asks of a human now.")
    deadline: float | None = Field(description="Epoch seconds; null = it has none, or it stands still.")


class LiveAnswer(Answer):
    """What goes on now: tree by tree, the newest first; in each, parents before children."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"runs": [_EXAMPLE], "left_out": 0}]})

    runs: list[LiveRunAnswer]
    left_out: int = Field(
        description="Live runs that are not among them; a tree that was not looked at counts as one run."
    )
