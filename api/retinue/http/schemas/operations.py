"""Answers about agents, workers, queues and dead letters, and what a session has used."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field, JsonValue

from retinue.contract import ErrorClassification
from retinue.http.schemas.answer import Answer
from retinue.http.schemas.runs import RunId
from retinue.http.schemas.usages import UsageAnswer

_RUN: Final = "sa-p07-abcdefghijklmnopqrstuvwxyz"
_PROCESS: Final = "3f1c0de2a4b84f6f9d1f0a7c5e2b9a10"
_AGENT: Final = {
    "name": "support",
    "description": "Helps customers.",
    "model": "gpt-5-mini",
    "provider": "openai",
    "queue": "retinue",
    "toolsets": ["handbook"],
    "sub_agents": ["researcher"],
    "inputs": [],
    "last_seen": 1_798_761_600.25,
    "live": True,
}
_WORKER: Final = {
    "name": "w1@alpha",
    "process": _PROCESS,
    "host": "alpha",
    "pid": 4711,
    "started_at": 1_798_761_600.25,
    "queues": ["retinue"],
    "private_queue": f"retinue.worker.{_PROCESS}",
    "agents": ["assistant", "researcher", "support"],
    "slots": 500,
    "runs": 12,
    "lease_ms": 4_210,
    "draining": False,
    "drain_asked": False,
}
_LETTER: Final = {
    "run_id": _RUN,
    "session_id": "customer-42",
    "agent": "support",
    "error_classification": "WORKER_LOST",
    "losses": 3,
    "iteration": 2,
    "created_at": 1_798_761_600.25,
    "ended_at": 1_798_761_680.5,
    "root_id": _RUN,
    "parent_id": None,
    "request": None,
}
_USED: Final = {
    "model_calls": 2,
    "retries": 0,
    "input_tokens": 830,
    "output_tokens": 112,
    "cached_tokens": 0,
    "reasoning_tokens": 0,
    "tool_calls": 1,
    "tools": {"search_handbook": 1},
    "tool_seconds": {"search_handbook": 0.041},
    "waiting_seconds": 0.0,
    "attempts": 1,
    "cost_usd": 0.000431,
}


def _example(value: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [value]})


_NEXT: Final = "Where the next page begins; null = this was the last."


class AgentAnswer(Answer):
    """An agent as it was last advertised; null and empty = not known, or left open."""

    name: str
    description: str
    model: str | None
    provider: str | None
    queue: str | None
    toolsets: list[str]
    sub_agents: list[str]
    inputs: list[str]
    last_seen: float = Field(description="Epoch seconds.")
    live: bool = Field(description="Some live worker can run it now.")


class AgentsAnswer(Answer):
    """The agents that were advertised in the last 30 days, by name."""

    model_config = _example({"agents": [_AGENT], "next_cursor": None})

    agents: list[AgentAnswer]
    next_cursor: str | None = Field(description=_NEXT)


class ToolsetAnswer(Answer):
    """A tool set and its tools."""

    name: str
    tools: list[str]


class ToolsetsAnswer(Answer):
    """The tool sets that were advertised in the last 30 days, by name."""

    model_config = _example(
        {"toolsets": [{"name": "handbook", "tools": ["search_handbook"]}], "next_cursor": None}
    )

    toolsets: list[ToolsetAnswer]
    next_cursor: str | None = Field(description=_NEXT)


class WorkerAnswer(Answer):
    """A worker process."""

    model_config = _example(_WORKER)

    name: str | None = Field(description="Celery's name of it; another process may bear the same.")
    process: str = Field(description="Its id; fresh at each start.")
    host: str
    pid: int
    started_at: float = Field(description="Epoch seconds.")
    queues: list[str]
    private_queue: str
    agents: list[str] = Field(description="Empty = it has one run to itself.")
    slots: int = Field(description="Runs at a time.")
    runs: int = Field(description="That it holds; those that have lent their slot count as well.")
    lease_ms: int | None = Field(description="Left of its lease; null = it is dead, or frozen.")
    draining: bool
    drain_asked: bool


class WorkersAnswer(Answer):
    """The worker processes, by host and age."""

    model_config = _example({"workers": [_WORKER], "next_cursor": None})

    workers: list[WorkerAnswer]
    next_cursor: str | None = Field(description=_NEXT)


class QueueAnswer(Answer):
    """A queue. `workers`: how many live ones take from it."""

    name: str
    queued: int = Field(description="Runs that wait in it, of all tenants.")
    workers: int = Field(description="Live workers that serve it.")


class QueuesAnswer(Answer):
    """The queues that somebody serves, is routed to or waits in, by name."""

    model_config = _example({"queues": [{"name": "retinue", "queued": 3, "workers": 2}], "next_cursor": None})

    queues: list[QueueAnswer]
    next_cursor: str | None = Field(description=_NEXT)


class DeadLetterAnswer(Answer):
    """A run that was given up because its worker processes were lost again and again."""

    model_config = _example({**_LETTER, "request": {"agent": "support", "goal": "May I return headphones?"}})

    run_id: RunId
    session_id: str
    agent: str
    error_classification: Annotated[ErrorClassification, Field(strict=False)]
    losses: int
    iteration: int = Field(description="The last one recorded.")
    created_at: float = Field(description="Epoch seconds.")
    ended_at: float = Field(description="Epoch seconds.")
    root_id: RunId
    parent_id: RunId | None = Field(description="null = a root, which can be replayed.")
    request: dict[str, JsonValue] | None = Field(description="As launched; null in a list.")


class DeadLettersAnswer(Answer):
    """A page of dead letters, newest first."""

    model_config = _example({"dead_letters": [_LETTER], "next_cursor": None})

    dead_letters: list[DeadLetterAnswer]
    next_cursor: str | None = Field(description=_NEXT)


class DiscardAnswer(Answer):
    """That a dead letter was thrown away."""

    model_config = _example({"discarded": True})

    discarded: bool


class SessionUsageAnswer(Answer):
    """What the runs of a session have used that are kept."""

    model_config = _example(
        {
            "session_id": "customer-42",
            "total": _USED,
            "by_agent": {"support": _USED},
            "runs": 1,
            "unknown": 0,
            "left_out": 0,
        }
    )

    session_id: str
    total: UsageAnswer
    by_agent: dict[str, UsageAnswer] = Field(description="By the agent that was active last in a run.")
    runs: int = Field(description="Runs that are counted.")
    unknown: int = Field(description="Those among them whose usage nobody knows.")
    left_out: int = Field(description="Older root runs that were not looked at, and what is below them.")
