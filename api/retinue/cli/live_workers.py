"""The worker processes as they stand in the store: what they advertise, hold, and how long their lease is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from retinue.broker.catalogue import WorkerEntry, read_workers
from retinue.broker.draining import ask_to_drain, read_asked
from retinue.cli.live_runs import read_indexes
from retinue.contract import StoreError
from retinue.store import keys

if TYPE_CHECKING:
    from retinue.store.store import Store
    from retinue.store.sync_link import SyncLink


@dataclass(frozen=True, slots=True)
class LiveWorker:
    """A process that has not been taken out of the store.

    Args:
        entry: What it advertises.
        runs: That it holds; those that wait inside a tool have lent their slot, and count as well.
        lease_ms: What is left of its lease, in ms; None = it has none.
        drain_asked: Whether somebody has asked it to drain.
    """

    entry: WorkerEntry
    runs: int
    lease_ms: int | None
    drain_asked: bool

    @property
    def label(self) -> str:
        """For messages."""
        entry = self.entry
        return f"{entry.name or entry.process} ({entry.host}:{entry.pid})"

    @property
    def up_s(self) -> float:
        """How long it has been there, in seconds."""
        return time.time() - self.entry.started_at

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        entry = self.entry
        return {
            "name": entry.name or None,
            "process": entry.process,
            "host": entry.host,
            "pid": entry.pid,
            "started_at": entry.started_at,
            "queues": list(entry.queues),
            "private_queue": entry.private_queue,
            "agents": list(entry.agents),
            "slots": entry.slots,
            "runs": self.runs,
            "lease_ms": self.lease_ms,
            "draining": entry.draining,
            "drain_asked": self.drain_asked,
        }


def read_live_workers(store: Store, link: SyncLink) -> tuple[LiveWorker, ...]:
    """All of them, by host and age.

    Args:
        store, link: the store, for calls and for what is read in one round trip.

    Raises:
        RetinueError: the store did not answer.
    """
    entries = store.run(read_workers())
    if not entries:
        return ()
    asked = store.run(read_asked(list(entries)))
    held = read_indexes(link, (), sorted(entries)).claimed
    leases = link.pipeline([("PTTL", keys.lease(process)) for process in entries])
    found: list[LiveWorker] = []
    for (process, entry), left_ms in zip(entries.items(), leases, strict=True):
        if isinstance(left_ms, StoreError):
            raise left_ms
        lease_ms = left_ms if isinstance(left_ms, int) and left_ms >= 0 else None
        found.append(LiveWorker(entry, held.get(process, 0), lease_ms, process in asked))
    return tuple(sorted(found, key=lambda each: (each.entry.host, each.entry.started_at, each.entry.pid)))


def named(found: Sequence[LiveWorker], name: str) -> list[LiveWorker]:
    """The workers that a name may mean: Celery's name, host:pid, or the beginning of the process id."""

    def is_meant(entry: WorkerEntry) -> bool:
        return name in (entry.name, f"{entry.host}:{entry.pid}") or entry.process.startswith(name)

    return [worker for worker in found if name and is_meant(worker.entry)]


def ask(store: Store, worker: LiveWorker) -> None:
    """Asks a worker to drain.

    Raises:
        RetinueError: the store did not take the request.
    """
    for call in ask_to_drain(worker.entry.process):
        store.run(call)
