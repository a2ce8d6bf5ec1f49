"""The catalogue: what live workers advertise, and what was advertised in the last 30 days.

A launch is checked against it before anything is written: an agent that was never advertised is an
error, one that is known but not live just now waits.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Final, Protocol, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from retinue.broker.links import AsyncExecutes
from retinue.broker.routes import private_queue
from retinue.store import keys
from retinue.store.call import CommandCall, texts
from retinue.store.store import Store

REMEMBERED_S: Final = 30 * 24 * 3600
"""How long a name stays known after it was last advertised."""

CACHE_S: Final = 5.0
"""How long a process relies on what it read."""

LOOKED_AFTER_S: Final = 3600.0
"""How long the reaper still looks for what comes to a process that is gone."""

MOST_TRIMMED: Final = 100
"""Names that one advertisement forgets."""

T = TypeVar("T")
_log = logging.getLogger("retinue.catalogue")


class AsyncReads(Protocol):
    """A store that answers reads: an AsyncStore, or one that waits for the store."""

    async def run(self, call: CommandCall[T], /) -> T:
        """The answer to one read."""
        ...


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
        name: Celery's name of it, such as celery@host; another process may bear the same.
        draining: It takes no more work, and ends once it has handed back what it holds.
        answers_canaries: It knows the canary's task; an older release would drop it as none of ours.
    """

    process: str
    host: str = ""
    pid: int = 0
    started_at: float = 0.0
    queues: tuple[str, ...] = ()
    private_queue: str = ""
    agents: tuple[str, ...] = ()
    slots: int = 0
    name: str = ""
    draining: bool = False
    answers_canaries: bool = False


@dataclass(frozen=True, slots=True)
class AgentEntry:
    """An agent as it was last advertised. None and empty = not known, or left open.

    `stop_hooks`: the workers that have it have hooks to tell of a run's end.
    """

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
    stop_hooks: bool = False


@dataclass(frozen=True, slots=True)
class CatalogueSnapshot:
    """All of it at one time, by name; of the workers only those that live.

    `webhook_tenants`: those that have endpoints to be told of their root runs' ends.
    """

    workers: Mapping[str, WorkerEntry]
    agents: Mapping[str, AgentEntry]
    toolsets: Mapping[str, tuple[str, ...]]
    providers: frozenset[str]
    webhook_tenants: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Whether no worker has advertised anything for 30 days."""
        return not self.agents

    def agent(self, name: str) -> AgentEntry | None:
        """What is known of an agent."""
        return self.agents.get(name)

    def has_stop_hooks(self, agent: str | None) -> bool:
        """Whether hooks are told of the ends of an agent's runs; None = an agent that any worker can run."""
        if agent is None:
            return any(entry.stop_hooks for entry in self.agents.values())
        entry = self.agents.get(agent)
        return entry is not None and entry.stop_hooks

    @property
    def takers(self) -> list[WorkerEntry]:
        """The workers that take work; one that drains, or has a single run to itself, does not."""
        return [worker for worker in self.workers.values() if worker.agents and not worker.draining]

    def capable_workers(self, agent: str) -> list[WorkerEntry]:
        """The workers that take work and say that they can run an agent, sorted by process."""
        return sorted((worker for worker in self.takers if agent in worker.agents), key=lambda w: w.process)

    def can_run(self, agent: str) -> bool:
        """Whether some worker takes work and says that it can run an agent; "" = one that all can run."""
        return any(not agent or agent in worker.agents for worker in self.takers)

    @property
    def queues(self) -> frozenset[str]:
        """Every queue that somebody serves or that an agent is routed to."""
        own = {queue for worker in self.workers.values() for queue in worker.queues}
        return frozenset(own | {entry.queue for entry in self.agents.values() if entry.queue})


def read_workers() -> CommandCall[dict[str, WorkerEntry]]:
    """The workers that have not been taken out.

    Of an entry that cannot be read only the name counts: whether that process lives, its lease tells, and
    what a dead one held must be taken over all the same.
    """

    def parse(reply: Any) -> dict[str, WorkerEntry]:
        return {process: _worker(process, raw) for process, raw in _fields(reply).items()}

    return CommandCall(("HGETALL", keys.WORKERS), parse)


def read_leases(processes: Sequence[str]) -> CommandCall[frozenset[str]]:
    """Which of the processes live."""

    def parse(reply: Any) -> frozenset[str]:
        return frozenset(name for name, lease in zip(processes, reply, strict=True) if lease is not None)

    return CommandCall(("MGET", *map(keys.lease, processes)), parse)


def read_names() -> CommandCall[dict[str, dict[str, Any]]]:
    """Every remembered name with what was said of it, where that is readable.

    Names begin with `agent:`, `toolset:`, `provider:` or `webhooks:`.
    """

    def parse(reply: Any) -> dict[str, dict[str, Any]]:
        found = {name: _object(raw) for name, raw in _fields(reply).items()}
        for name in (name for name, value in found.items() if value is None):
            _say_unreadable(name)
        return {name: value for name, value in found.items() if value is not None}

    return CommandCall(("HGETALL", keys.CATALOGUE), parse)


def snapshot_of(
    workers: Mapping[str, WorkerEntry], names: Mapping[str, Mapping[str, Any]], now: float
) -> CatalogueSnapshot:
    """What stands in the store, without the names that are too old, or that cannot be read.

    Args:
        now: Epoch seconds.
    """
    agents: dict[str, AgentEntry] = {}
    toolsets: dict[str, tuple[str, ...]] = {}
    providers: set[str] = set()
    webhook_tenants: set[str] = set()
    for key, value in names.items():
        kind, _, name = key.partition(":")
        seen = value.get("last_seen")
        if not isinstance(seen, int | float):
            _say_unreadable(key)
            continue
        if seen < now - REMEMBERED_S:
            continue
        try:
            match kind:
                case "agent":
                    agents[name] = _AGENT.validate_python({**value, "name": name})
                case "toolset":
                    toolsets[name] = _TOOLS.validate_python(value.get("tools", ()))
                case "provider":
                    providers.add(name)
                case "webhooks":
                    webhook_tenants.add(name)
                case _:
                    continue  # of a newer version
        except ValidationError:
            _say_unreadable(key)
    return CatalogueSnapshot(workers, agents, toolsets, frozenset(providers), frozenset(webhook_tenants))


def advertise_command(
    entries: Mapping[str, Any], providers: Sequence[str], now: float
) -> tuple[str | float, ...]:
    """Remembers names.

    Args:
        entries: As `retinue.agents.registry.catalogue.advertise` gives them: `agents` and `toolsets`.
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

    It also forgets some of the names that nobody has advertised for 30 days.

    Raises:
        StoreError: The store did not take it.
    """
    await link.execute("HSET", keys.WORKERS, worker.process, json.dumps(asdict(worker)))
    await link.execute("ZREM", keys.GONE, worker.process)
    await link.execute(*advertise_command(entries, providers, now))
    names = read_names().parse(await link.execute("HGETALL", keys.CATALOGUE))
    old = [name for name, value in names.items() if _is_old(value, now)]
    if old:
        await link.execute("HDEL", keys.CATALOGUE, *old[:MOST_TRIMMED])


def advertise_webhooks(tenants: Sequence[str], now: float) -> CommandCall[None]:
    """Says that tenants, at least one, have endpoints of webhooks, so that launches mark their runs.

    Args:
        now: Epoch seconds.
    """
    seen = json.dumps({"last_seen": now})
    pairs = [word for tenant in tenants for word in (f"webhooks:{tenant}", seen)]
    return CommandCall(("HSET", keys.CATALOGUE, *pairs), lambda _: None)


def withdraw_webhooks(tenant: str) -> CommandCall[None]:
    """Says that a tenant has no endpoint any more."""
    return CommandCall(("HDEL", keys.CATALOGUE, f"webhooks:{tenant}"), lambda _: None)


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

    def __init__(self, store: AsyncReads) -> None:
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


_WORKER: Final = TypeAdapter(WorkerEntry)
_AGENT: Final = TypeAdapter(AgentEntry)
_TOOLS: Final = TypeAdapter(tuple[str, ...])


def _worker(process: str, raw: str) -> WorkerEntry:
    named = {"process": process}
    value = _object(raw)
    try:
        if value is not None:
            return _WORKER.validate_python({"private_queue": private_queue(process), **value, **named})
    except ValidationError:
        pass
    _say_unreadable(f"worker:{process}")
    return WorkerEntry(process, private_queue=private_queue(process))


def _object(raw: str) -> dict[str, Any] | None:
    """A JSON object; None = it is none."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _is_old(value: Mapping[str, Any], now: float) -> bool:
    seen = value.get("last_seen")
    return isinstance(seen, int | float) and seen < now - REMEMBERED_S


def _fields(reply: Sequence[Any]) -> dict[str, str]:
    """The fields of a hash; bytes that are no text spoil their own field only."""
    words = [word.decode(errors="replace") if isinstance(word, bytes) else str(word) for word in reply]
    return dict(zip(words[::2], words[1::2], strict=True))


@lru_cache(maxsize=1000)
def _say_unreadable(name: str) -> None:
    # Cached so that it is said once: the catalogue is read every few seconds.
    _log.error("catalogue.unreadable name=%s", name)
