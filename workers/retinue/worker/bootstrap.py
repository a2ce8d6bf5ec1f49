"""What a worker process does before it takes work, in this order: settings, store, lease, user code.

The lease's sidecar is started before any module of the user's is imported, so that code which hangs
or dies at import is noticed like any other.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
import uuid
from dataclasses import dataclass
from functools import cache
from typing import Any

from retinue.agents.registry.registry import Registry
from retinue.broker.routes import queue_for
from retinue.broker.server.checks import require_server
from retinue.broker.settings import Settings, load_settings
from retinue.contract import RetinueError, SettingsError, StoreUnavailableError
from retinue.store.connections.sync_link import SyncLink
from retinue.worker.process.lease import Lease

_log = logging.getLogger("retinue.worker")
_LEASE_WAIT_S = 10.0
"""How long a server that answers may let a worker wait for its lease, in seconds."""

_LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class Prepared:
    """A process that is ready to take work.

    Args:
        process: Its fresh uuid.
        settings: Of this process.
        lease: Started; its `on_lost` is set by the runtime.
        registry: What the process can run.
    """

    process: str
    settings: Settings
    lease: Lease
    registry: Registry


@cache
def prepare() -> Prepared:
    """Makes the process ready, once.

    Raises:
        RetinueError: A setting, the server or a declaration is wrong; the text says the mend.
    """
    settings = load_settings()
    require_server(settings.required_store_url, durability=settings.durability)
    process = uuid.uuid4().hex
    lease = Lease(
        process,
        settings.required_store_url,
        lease_seconds=settings.lease_seconds,
        hang_seconds=settings.hang_seconds,
    )
    lease.start()
    lease.beat("start")
    _import_from_here()
    _set_up_django()
    registry = Registry.load(settings.agents)
    for module in registry.bare_modules:
        _log.warning(
            "agents.none module=%s: it declares no agent; agents must stand at the top level of a module",
            module,
        )
    _wait_for_lease(lease, settings)
    lease.retire("start")
    return Prepared(process, settings, lease, registry)


def _wait_for_lease(lease: Lease, settings: Settings) -> None:
    """As long as the server is away: it was there a moment ago, so it restarts, or a replica takes over."""
    answered_s = 0.0
    while not lease.wait_held(_LOOK_S):
        lease.beat("start")
        if not _answers(settings):
            answered_s = 0.0
            _log.warning("store.waiting reason=lease delay_s=%g", _LOOK_S)
            continue
        answered_s += _LOOK_S
        if answered_s >= _LEASE_WAIT_S:
            raise SettingsError("no lease could be taken", setting="store_url", mend="see the worker's log")


def _answers(settings: Settings) -> bool:
    limit_s = settings.store_timeout_seconds
    link = SyncLink(settings.required_store_url, connect_timeout_s=limit_s, timeout_s=limit_s, retries=0)
    try:
        link.execute("PING")
    except StoreUnavailableError:
        return False
    finally:
        link.close()
    return True


def loaded_queues(_app: Any) -> list[str]:
    """The queues of the agents that this process loaded; named by the app's configuration.

    Raises:
        SystemExit: The process cannot be made ready; with what the user can do about it.
    """
    try:
        prepared = prepare()
    except RetinueError as fault:
        raise SystemExit(f"retinue: {fault}") from fault
    return queues_of(prepared.registry, prepared.settings)


def queues_of(registry: Registry, settings: Settings) -> list[str]:
    """The queues to subscribe to: the default one, then those of the agents, sorted."""
    own = {queue_for(name, settings, entry.config.queue) for name, entry in registry.agents.items()}
    return [settings.queue, *sorted(own - {settings.queue})]


def _import_from_here() -> None:
    # Celery's script has it there for the time of its own imports only; agents are imported later.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def _set_up_django() -> None:
    if os.environ.get("DJANGO_SETTINGS_MODULE") and importlib.util.find_spec("django") is not None:
        import django

        django.setup()
        _log.info("django.ready settings=%s", os.environ["DJANGO_SETTINGS_MODULE"])
