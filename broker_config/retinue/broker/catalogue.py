"""The catalogue: what live workers advertise, and what was advertised in the last 30 days.

A launch is checked against it before anything is written: an agent that was never advertised is an
error, one that is known but not live just now waits.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, TypeVar

from retinue.broker.links import AsyncExecutes
from retinue.store import keys
from retinue.store.call import CommandCall, mapping, texts
from retinue.store.store import AsyncStore, Store

REMEMBERED_S: Final = 30 * 24 * 3600
"""How long a name stays known after it was last advertised."""

CACHE_S: Final = 5.0
"""How long a process relies on what it read."""

LOOKED_AFTER_S: Final = 3600.0
"""How long the reaper still looks for what comes to a process that is gone."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WorkerEntry:
    """A worker process that has not gone yet; whether it lives, its lease tells.

    Args:
        process: Its uuid.
        host, pid: Where it runs.
        started_at: Epoch seconds.
        queues: That it subscribed to.
        private_queue: That only it serves.
        agents: That it can run.
        slots: Runs at a time.
    """

    process: str
    host: str
    pid: int
    started_at: float
    queues: tuple[str, ...]
    private_queue: str
    agents: tuple[str, ...]
    slots: int


@dataclass(frozen=True, slots=True)
class AgentEntry:
    """An agent as it was last advertised. None and empty = not known, or left open."""

    name: str
    description: str = ""
    model: str | None = None
    provider: str | None = None
    queue: str | None = None
    toolsets: tuple[str, ...] = ()
    sub_agents: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    digest: str = ""
    last_seen: float = 0.0


@dataclass(frozen=True, slots=True)
class CatalogueSnapshot:
    """All of it at one time, by name; of the workers only those that live."""

    workers: Mapping[str, WorkerEntry]
    agents: Mapping[str, AgentEntry]
    toolsets: Mapping[str, tuple[str, ...]]
    providers: frozenset[str]

    @property
    def is_empty(self) -> bool:
        """Whether no worker has advertised anything for 30 days."""
        return not self.agents

    def agent(self, name: str) -> AgentEntry | None:
        """What is known of an agent."""
        return self.agents.get(name)

    def capable_workers(self, agent: str) -> list[WorkerEntry]:
        """The workers that say that they can run an agent, sorted by process."""
        return sorted(
            (worker for worker in self.workers.values() if agent in worker.agents), key=lambda w: w.process
        )

    @property
    def queues(self) -> frozenset[str]:
        """Every queue that somebody serves or that an agent is routed to."""
        own = {queue for worker in self.workers.values() for queue in worker.queues}
        return frozenset(own | {entry.queue for entry in self.agents.values() if entry.queue})


def read_workers() -> CommandCall[dict[str, WorkerEntry]]:
    """The workers that have not been taken out."""

    def parse(reply: Any) -> dict[str, WorkerEntry]:
        found = (_read(WorkerEntry, json.loads(raw)) for raw in mapping(reply).values())
        return {worker.process: worker for worker in found}

    return CommandCall(("HGETALL", keys.WORKERS), parse)


def read_leases(processes: Sequence[str]) -> CommandCall[frozenset[str]]:
    """Which of the processes live."""

    def parse(reply: Any) -> frozenset[str]:
        return frozenset(name for name, lease in zip(processes, reply, strict=True) if lease is not None)

    return CommandCall(("MGET", *map(keys.lease, processes)), parse)


def read_names() -> CommandCall[dict[str, dict[str, Any]]]:
    """Every remembered name (`agent:`, `toolset:`, `provider:`) with what was said of it."""

    def parse(reply: Any) -> dict[str, dict[str, Any]]:
        return {name: json.loads(raw) for name, raw in mapping(reply).items()}

    return CommandCall(("HGETALL", keys.CATALOGUE), parse)


def snapshot_of(
    workers: Mapping[str, WorkerEntry], names: Mapping[str, Mapping[str, Any]], now: float
) -> CatalogueSnapshot:
    """What stands in the store, without the names that are too old.

    Args:
        now: Epoch seconds.
    """
    agents: dict[str, AgentEntry] = {}
    toolsets: dict[str, tuple[str, ...]] = {}
    providers: set[str] = set()
    for key, value in names.items():
        kind, _, name = key.partition(":")
        if value["last_seen"] < now - REMEMBERED_S:
            continue
        match kind:
            case "agent":
                agents[name] = _read(AgentEntry, value)
            case "toolset":
                toolsets[name] = tuple(value["tools"])
            case "provider":
                providers.add(name)
            case _:
                continue  # of a newer version
    return CatalogueSnapshot(workers, agents, toolsets, frozenset(providers))


def advertise_command(
    entries: Mapping[str, Any], providers: Sequence[str], now: float
) -> tuple[str | float, ...]:
    """Remembers names.

    Args:
        entries: As `retinue.agents.catalogue.advertise` gives them: `agents` and `toolsets`.
        providers: Names of configured providers.
        now: Epoch seconds.
    """
    said: dict[str, dict[str, Any]] = {f"agent:{entry['name']}": dict(entry) for entry in entries["agents"]}
    said |= {f"toolset:{name}": {"tools": tools} for name, tools in entries["toolsets"].items()}
    said |= {f"provider:{name}": {} for name in providers}
    pairs = [word for key, value in said.items() for word in (key, json.dumps({**value, "last_seen": now}))]
    return ("HSET", keys.CATALOGUE, *pairs)


async def advertise(
    link: AsyncExecutes, worker: WorkerEntry, entries: Mapping[str, Any], providers: Sequence[str], now: float
) -> None:
    """Says that a worker is there and what it can run; to be repeated now and then.

    Raises:
        StoreError: The store did not take it.
    """
    await link.execute("HSET", keys.WORKERS, worker.process, json.dumps(asdict(worker)))
    await link.execute("ZREM", keys.GONE, worker.process)
    await link.execute(*advertise_command(entries, providers, now))


async def withdraw(link: AsyncExecutes, process: str) -> None:
    """Takes a worker out; the names that it advertised stay known, and the reaper clears its private queue.

    Raises:
        StoreError: The store did not take it.
    """
    now = time.time()
    await link.execute("ZREMRANGEBYSCORE", keys.GONE, "-inf", now - LOOKED_AFTER_S)
    # First: between the two it must stand in one of them.
    await link.execute("ZADD", keys.GONE, now, process)
    await link.execute("HDEL", keys.WORKERS, process)


def read_gone(now: float) -> CommandCall[list[str]]:
    """The processes that were taken out in the last hour.

    Args:
        now: Epoch seconds.
    """
    return CommandCall(("ZRANGEBYSCORE", keys.GONE, now - LOOKED_AFTER_S, "+inf"), texts)


class Catalogue:
    """The catalogue for code without an event loop; reads at most every 5 s unless asked to.

    Args:
        store: Where it stands.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: tuple[float, CatalogueSnapshot] | None = None

    def snapshot(self, *, fresh: bool = False) -> CatalogueSnapshot:
        """What is advertised.

        Args:
            fresh: Ask the store, however recent the last answer is.
        """
        # Without a lock: while the store is away, one OS thread would wait for the time-outs of all others.
        read = self._read
        if not fresh and read is not None and time.monotonic() - read[0] < CACHE_S:
            return read[1]
        workers = self._store.run(read_workers())
        live = self._store.run(read_leases(list(workers))) if workers else frozenset[str]()
        found = snapshot_of(_of(workers, live), self._store.run(read_names()), time.time())
        self._read = time.monotonic(), found
        return found


class AsyncCatalogue:
    """Mirrors `Catalogue`."""

    def __init__(self, store: AsyncStore) -> None:
        self._store = store
        self._read: tuple[float, CatalogueSnapshot] | None = None

    async def snapshot(self, *, fresh: bool = False) -> CatalogueSnapshot:
        """Mirrors `Catalogue.snapshot`."""
        if not fresh and self._read is not None and time.monotonic() - self._read[0] < CACHE_S:
            return self._read[1]
        workers, names = await asyncio.gather(self._store.run(read_workers()), self._store.run(read_names()))
        live = await self._store.run(read_leases(list(workers))) if workers else frozenset[str]()
        found = snapshot_of(_of(workers, live), names, time.time())
        self._read = time.monotonic(), found
        return found


def _of(workers: Mapping[str, WorkerEntry], live: frozenset[str]) -> dict[str, WorkerEntry]:
    return {process: worker for process, worker in workers.items() if process in live}


def _read(kind: type[T], value: Mapping[str, Any]) -> T:
    """An entry; what a newer version has added to it is passed over."""
    known = {field.name for field in fields(kind)}  # pyright: ignore[reportArgumentType]
    return kind(
        **{
            name: tuple(item) if isinstance(item, list) else item
            for name, item in value.items()
            if name in known
        }
    )
