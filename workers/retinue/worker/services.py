"""What every attempt in a worker process shares."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from retinue.agents.registry.registry import Registry
from retinue.broker.catalogue import CatalogueSnapshot
from retinue.broker.settings import Settings
from retinue.broker.wakeups import Wakes
from retinue.client.launching.planning import LaunchPlanner
from retinue.worker.models import Model, Provider, RetryPolicy
from retinue.worker.models.admission import Admissions
from retinue.worker.models.prices import Prices
from retinue.worker.network.network_tools import NetworkTools
from retinue.worker.process.patience import PatientStore
from retinue.worker.process.slots import Slots
from retinue.worker.specs import SpecResolver

if TYPE_CHECKING:
    from retinue.worker.process.outbox import Outbox
    from retinue.worker.run.hook_calls import HookCalls


class Pool(Slots, Protocol):
    """What a runtime asks of whoever hands it wake-ups.

    `limit` is how many at a time, `node_name` Celery's name of the process.
    """

    limit: int
    node_name: str

    def look_again(self) -> None: ...

    def if_full(self, call: Callable[[], None]) -> None: ...


class Catalogue(Protocol):
    """What is advertised; `fresh` asks the store again."""

    async def snapshot(self, *, fresh: bool = False) -> CatalogueSnapshot: ...


@dataclass(frozen=True, slots=True)
class Services:
    """One worker process's shared parts.

    Args:
        process: The process's uuid, its name in owner sets and leases.
        capable: The agents that it runs, as `running.capability` writes them.
        network: Calls tools that are answered over the network.
        admissions: Where requests to providers with limits wait.
        provider: The whole bundle of a provider by name, or of an Agent Spec's own LLM config.
        outbox: Tells of the runs that the process has ended.
        draining: Set once the process is to stop: runs are handed back at their boundary.
        alone: The process runs nothing else beside a run: it may have suspects.
    """

    process: str
    capable: str
    settings: Settings
    store: PatientStore
    wakes: Wakes
    slots: Slots
    registry: Registry
    specs: SpecResolver
    catalogue: Catalogue
    planner: LaunchPlanner
    model: Model
    retries: RetryPolicy
    admissions: Admissions
    network: NetworkTools
    provider: Callable[..., Provider]
    prices: Prices
    hooks: HookCalls
    outbox: Outbox
    draining: asyncio.Event
    alone: bool = False
