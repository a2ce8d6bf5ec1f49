"""A live run as a list of what goes on shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from retinue.broker.catalogue import WorkerEntry
from retinue.client.reading.answers import usage_of
from retinue.contract import Phase, SubagentState
from retinue.store.operations.living import LiveEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRun:
    """A live run, or an ended one that stands above live ones."""

    run_id: str
    parent_id: str | None  # None = the tree's root
    root_id: str
    session_id: str
    agent: str
    state: SubagentState
    phase: Phase
    depth: int  # the root's is 0
    path: str  # numbers from the root down, as in 0/3/
    iteration: int  # the last one begun; 0 = none yet
    input_tokens: int | None  # None = unknown, as of an object that reports nothing
    output_tokens: int | None
    usd: float | None  # None = unknown, because a price is
    created_at: float  # epoch seconds
    queue: str
    worker: str | None  # name of the one that holds it; None = on none
    pending: int  # what the run itself asks of a human now
    deadline: float | None  # epoch seconds; None = it has none, or it stands still

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "run_id": self.run_id,
            "parent_id": self.parent_id,
            "root_id": self.root_id,
            "session_id": self.session_id,
            "agent": self.agent,
            "state": self.state.value,
            "phase": self.phase.value,
            "depth": self.depth,
            "path": self.path,
            "iteration": self.iteration,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "usd": self.usd,
            "created_at": self.created_at,
            "queue": self.queue,
            "worker": self.worker,
            "pending": self.pending,
            "deadline": self.deadline,
        }


@dataclass(frozen=True, slots=True)
class LiveRuns:
    """What goes on now.

    Args:
        runs: Tree by tree, the newest tree first; in each, parents first and in the order of their launch.
        left_out: Live runs that are not among them; a tree that was not looked at counts as one run.
    """

    runs: tuple[LiveRun, ...]
    left_out: int


def shown_run(entry: LiveEntry, workers: Mapping[str, WorkerEntry]) -> LiveRun:
    """The run of an entry.

    Args:
        workers: Those that there are, by process.
    """
    record, used = entry.record, usage_of(entry.record)
    deadline_ms = None if record.awaits_human or record.is_terminal else record.deadline_ms
    return LiveRun(
        run_id=entry.run_id,
        parent_id=record.parent_id,
        root_id=record.root_id,
        session_id=record.session_id,
        agent=record.agent,
        state=entry.state,
        phase=record.phase,
        depth=record.depth,
        path=record.path,
        iteration=record.iteration,
        input_tokens=used.input_tokens if used else None,
        output_tokens=used.output_tokens if used else None,
        usd=used.cost_usd if used else None,
        created_at=record.created_ms / 1000,
        queue=record.queue,
        worker=_name(record.owner, workers),
        pending=record.pending,
        deadline=deadline_ms / 1000 if deadline_ms else None,
    )


def _name(process: str | None, workers: Mapping[str, WorkerEntry]) -> str | None:
    worker = workers.get(process or "")
    return process if worker is None else worker.name or f"{worker.host}:{worker.pid}"
