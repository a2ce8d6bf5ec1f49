"""The worker processes and queues as they stand in the store: what they advertise, hold, and how long the
lease of a process still is.

Pure but for the faces at its end; each asks twice at most.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from retinue.broker.catalogue import WorkerEntry, read_workers
from retinue.broker.draining import ask_to_drain, read_asked
from retinue.broker.links import checked_replies, run_pipeline
from retinue.contract import PARTITIONS
from retinue.store import keys

if TYPE_CHECKING:
    from retinue.store.connections.link import AsyncLink
    from retinue.store.connections.sync_link import SyncLink
    from retinue.store.store import AsyncStore, Store


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


def named(found: Sequence[LiveWorker], name: str) -> list[LiveWorker]:
    """The workers that a name may mean: Celery's name, host:pid, or the beginning of the process id."""

    def is_meant(entry: WorkerEntry) -> bool:
        return name in (entry.name, f"{entry.host}:{entry.pid}") or entry.process.startswith(name)

    return [worker for worker in found if name and is_meant(worker.entry)]


class WorkerReads:
    """What to ask about processes, for one round trip.

    Args:
        entries: What they advertise, by process.
    """

    def __init__(self, entries: Mapping[str, WorkerEntry]) -> None:
        self._entries = entries
        self._asked = read_asked(list(entries))
        held = [("SCARD", keys.owned(number, process)) for process in entries for number in range(PARTITIONS)]
        leases = [("PTTL", keys.lease(process)) for process in entries]
        self.commands: list[tuple[Any, ...]] = [self._asked.command, *leases, *held]

    def answered(self, replies: Sequence[Any]) -> tuple[LiveWorker, ...]:
        """The workers, by host and age."""
        asked = self._asked.parse(replies[0])
        leases, held = replies[1 : 1 + len(self._entries)], replies[1 + len(self._entries) :]
        found = [
            LiveWorker(
                entry,
                sum(held[at * PARTITIONS : (at + 1) * PARTITIONS]),
                lease_ms if lease_ms >= 0 else None,
                process in asked,
            )
            for at, ((process, entry), lease_ms) in enumerate(zip(self._entries.items(), leases, strict=True))
        ]
        return tuple(sorted(found, key=lambda each: (each.entry.host, each.entry.started_at, each.entry.pid)))


class QueueReads:
    """What to ask about queues, for one round trip.

    Args:
        queues: Their names.
    """

    def __init__(self, queues: Iterable[str]) -> None:
        self._queues = sorted(set(queues))
        self.commands: list[tuple[Any, ...]] = [
            ("ZCARD", keys.queued(number, queue)) for queue in self._queues for number in range(PARTITIONS)
        ]

    def answered(self, replies: Sequence[int]) -> dict[str, int]:
        """How many runs wait in each, by name."""
        return {
            queue: sum(replies[at * PARTITIONS : (at + 1) * PARTITIONS])
            for at, queue in enumerate(self._queues)
        }


def read_live_workers(store: Store, link: SyncLink) -> tuple[LiveWorker, ...]:
    """All of them, by host and age.

    Args:
        store, link: The store, for calls and for what is read in one round trip.

    Raises:
        RetinueError: The store did not answer.
    """
    entries = store.run(read_workers())
    if not entries:
        return ()
    reads = WorkerReads(entries)
    return reads.answered(checked_replies(link.pipeline(reads.commands)))


async def read_live_workers_async(store: AsyncStore, link: AsyncLink) -> tuple[LiveWorker, ...]:
    """Mirrors `read_live_workers`."""
    entries = await store.run(read_workers())
    if not entries:
        return ()
    reads = WorkerReads(entries)
    return reads.answered(await run_pipeline(link, reads.commands))


def count_queued(link: SyncLink, queues: Iterable[str]) -> dict[str, int]:
    """How many runs wait in each queue, whoever's they are, by name.

    Raises:
        StoreError: The store did not answer.
    """
    reads = QueueReads(queues)
    return reads.answered(checked_replies(link.pipeline(reads.commands)))


async def count_queued_async(link: AsyncLink, queues: Iterable[str]) -> dict[str, int]:
    """Mirrors `count_queued`."""
    reads = QueueReads(queues)
    return reads.answered(await run_pipeline(link, reads.commands))


def ask(store: Store, worker: LiveWorker) -> None:
    """Asks a worker to drain.

    Raises:
        RetinueError: The store did not take the request.
    """
    for call in ask_to_drain(worker.entry.process):
        store.run(call)


async def ask_async(store: AsyncStore, worker: LiveWorker) -> None:
    """Mirrors `ask`."""
    for call in ask_to_drain(worker.entry.process):
        await store.run(call)
