"""The checks of `retinue doctor`: each says what is wrong and what mends it, or what it found in order."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from retinue.broker.addresses import for_links
from retinue.broker.catalogue import CatalogueSnapshot
from retinue.broker.server.checks import check_server
from retinue.broker.server.report import Severity
from retinue.cli.doctor.durability_text import durability_text
from retinue.contract import RetinueError, SettingsError

if TYPE_CHECKING:
    from retinue.broker.settings import Settings
    from retinue.client.dispatch.connections import Connections

CLOCK_MAX_S: Final = 2.0
"""Largest difference to the store's clock that is not worth a warning."""


class Outcome(StrEnum):
    """How a check went."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found; `mend` is None where nothing is wrong."""

    check: str
    outcome: Outcome
    message: str
    mend: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "check": self.check,
            "outcome": self.outcome.value,
            "message": self.message,
            "mend": self.mend,
        }


def examine() -> Iterator[Finding]:
    """Every check, in the order in which one would mend what they find."""
    from retinue.broker.settings import Settings, load_settings
    from retinue.broker.settings.faults import misspelt_variables
    from retinue.broker.settings.file import config_file

    try:
        settings = load_settings()
        place = config_file()
    except SettingsError as error:
        yield _fault("settings", error)
        return
    source = f"environment and {place}" if place.is_file() else "environment"
    yield Finding("settings", Outcome.OK, f"read from {source}")
    for name, near in misspelt_variables(os.environ, Settings).items():
        yield Finding("settings", Outcome.WARNING, f"{name} is no setting", f"rename it to {near}")
    yield check_extra(settings)
    yield from check_providers(settings)
    advertised = None
    for finding in check_agents(settings):
        if isinstance(finding, Finding):
            yield finding
        else:
            advertised = finding
    try:
        url = settings.required_store_url
    except SettingsError as error:
        yield _fault("store", error)
        return
    reachable = False
    for finding in check_url("store", url, settings):
        reachable = reachable or finding.outcome is Outcome.OK
        yield finding
    if not settings.same_server:
        yield from check_broker(settings)
    if reachable:
        yield from check_store_contents(settings, advertised or {})


def check_url(check: str, url: str, settings: Settings) -> Iterator[Finding]:
    """A server: reachable, new enough, and as durable as the settings promise."""
    report = check_server(url, durability=settings.durability)
    if report.reachable and report.version:
        yield Finding(check, Outcome.OK, f"{report.product} {report.version} at {report.url}")
        if check == "store":
            yield Finding("durability", Outcome.OK, durability_text(report, settings.durability))
    for problem in report.problems:
        outcome = Outcome.ERROR if problem.severity is Severity.ERROR else Outcome.WARNING
        yield Finding(check, outcome, problem.message, problem.mend)


def check_broker(settings: Settings) -> Iterator[Finding]:
    """A broker that is another server than the store."""
    address = settings.broker_address
    if address is not None:
        yield from check_url("broker", for_links(address), settings)
        return
    from kombu.connection import Connection

    timeout_s = math.ceil(settings.store_timeout_seconds)
    connection = Connection(settings.required_broker_url, connect_timeout=timeout_s)
    try:
        with connection:
            connection.ensure_connection(max_retries=1, interval_start=0)
    except Exception as error:  # each transport has errors of its own
        message = f"the broker does not answer ({type(error).__name__})"
        yield Finding("broker", Outcome.ERROR, message, "start it, or correct RETINUE_BROKER_URL")
        return
    yield Finding("broker", Outcome.OK, f"answers at {connection.as_uri()}")


def check_extra(settings: Settings) -> Finding:
    """What only workers need; its absence is an error where the settings name agents to run."""
    from retinue.worker.extra import MEND, missing_packages, what_is_missing

    missing = missing_packages()
    if not missing:
        return Finding("worker extra", Outcome.OK, "installed")
    message = f"a worker on this machine needs {what_is_missing(missing)}"
    outcome = Outcome.ERROR if settings.agents else Outcome.WARNING
    return Finding("worker extra", outcome, message, MEND)


def check_providers(settings: Settings) -> Iterator[Finding]:
    """The model providers of this process; a process that only launches needs none."""
    if not settings.providers:
        message = "no model provider is configured in this process; workers need one"
        yield Finding("providers", Outcome.WARNING, message, "set OPENAI_API_KEY, or [providers.<name>]")
    for name, provider in sorted(settings.providers.items()):
        try:
            key = provider.key()
        except SettingsError as error:
            yield _fault("providers", error)
            continue
        shown = "with a key" if key is not None else "without a key"
        yield Finding("providers", Outcome.OK, f"{name}: {provider.base_url}, {shown}")


def check_agents(settings: Settings) -> Iterator[Finding | Mapping[str, Any]]:
    """The modules of the setting `agents`, imported; at the end what they advertise, by agent."""
    if not settings.agents:
        yield Finding("agents", Outcome.OK, "RETINUE_AGENTS is not set in this process: nothing to import")
        return
    from retinue.agents.registry.catalogue import advertise
    from retinue.agents.registry.registry import Registry

    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        # What a module prints while it is imported must not get into the report.
        with contextlib.redirect_stdout(sys.stderr):
            registry = Registry.load(settings.agents)
    except RetinueError as error:
        yield _fault("agents", error)
        return
    except Exception as error:  # a user's module may raise anything
        message = f"importing {', '.join(settings.agents)} failed: {type(error).__name__}: {error}"
        mend = f'see python -c "import {settings.agents[0]}"'
        yield Finding("agents", Outcome.ERROR, message, mend)
        return
    for module in registry.bare_modules:
        yield Finding(
            "agents",
            Outcome.WARNING,
            f"{module} declares no agent",
            "agents must stand at the top level of a module",
        )
    names = ", ".join(sorted(registry.agents)) or "none"
    yield Finding("agents", Outcome.OK, f"{', '.join(settings.agents)} declare {names}")
    entries: Any = advertise(registry, settings)["agents"]
    yield {entry["name"]: entry for entry in entries}


def check_store_contents(settings: Settings, advertised: Mapping[str, Any]) -> Iterator[Finding]:
    """Clock, handle keys, API keys, and live workers, as the store tells."""
    from retinue.client.dispatch.connections import connections_for

    connections = connections_for(settings)
    try:
        yield check_clock(connections)
        yield from check_keys(connections, settings)
        yield check_api_keys(connections)
        snapshot = connections.catalogue.snapshot(fresh=True)
    except RetinueError as error:
        yield _fault("store", error)
        return
    finally:
        connections.close()
    yield from check_workers(snapshot, advertised)


def check_clock(connections: Connections) -> Finding:
    """This machine's clock against the store's, by which deadlines are counted."""
    before = time.time()
    seconds, microseconds = connections.link.execute("TIME")
    ahead_s = (before + time.time()) / 2 - (int(seconds) + int(microseconds) / 1e6)
    message = f"this machine is {abs(ahead_s):.3f} s {'ahead of' if ahead_s > 0 else 'behind'} the store"
    if abs(ahead_s) <= CLOCK_MAX_S:
        return Finding("clock", Outcome.OK, message)
    return Finding("clock", Outcome.WARNING, message, "synchronise both clocks (NTP)")


def check_keys(connections: Connections, settings: Settings) -> Iterator[Finding]:
    """The keys that sign handles: those of the settings win over those in the store."""
    from retinue.broker.keyring_store import read_ring

    stored = connections.store.run(read_ring())
    kids = ", ".join(stored.kids) if stored is not None else ""
    if not settings.handle_keys:
        yield Finding("handle keys", Outcome.OK, f"in the store: {kids or 'made at the first launch'}")
        return
    signing = next(key.kid for key in settings.handle_keys if key.state == "sign")
    own = ", ".join(key.kid for key in settings.handle_keys)
    yield Finding("handle keys", Outcome.OK, f"in the settings: {own}; {signing} signs")
    if stored is not None:
        message = f"the store has keys too ({kids}): their handles are not accepted by this process"
        mend = (
            "give every process the same handle_keys; old handles stay valid where the keys are in the store"
        )
        yield Finding("handle keys", Outcome.WARNING, message, mend)


def check_api_keys(connections: Connections) -> Finding:
    """How many API keys open the HTTP API."""
    from retinue.store.operations.api_keys import list_keys

    good = [key for key in connections.store.run(list_keys()) if key.is_good(time.time())]
    if not good:
        return Finding("API keys", Outcome.OK, "none: the HTTP API's first start makes one")
    of_tenants = ", ".join(sorted({key.tenant for key in good}))
    return Finding("API keys", Outcome.OK, f"{len(good)} good ones, of the tenants {of_tenants}")


def check_workers(snapshot: CatalogueSnapshot, advertised: Mapping[str, Any]) -> Iterator[Finding]:
    """That somebody serves every queue and runs every agent, and runs the code that is here."""
    if not snapshot.workers:
        mend = "start one: retinue worker shop.agents, or celery -A retinue.worker worker"
        yield Finding("workers", Outcome.ERROR, "no worker is live", mend)
        return
    slots = sum(worker.slots for worker in snapshot.workers.values())
    yield Finding("workers", Outcome.OK, f"{len(snapshot.workers)} live, {slots} slots")
    for name, entry in sorted(advertised.items()):
        capable = snapshot.capable_workers(name)
        known = snapshot.agent(name)
        if not capable:
            message = f"agent {name!r} is declared here, and no live worker runs it"
            yield Finding(
                "workers", Outcome.WARNING, message, "restart the workers with the same RETINUE_AGENTS"
            )
        elif known is not None and known.digest and known.digest != entry["digest"]:
            message = f"agent {name!r} is declared differently here than on the workers"
            yield Finding(
                "workers", Outcome.WARNING, message, "restart the workers, or use their version here"
            )
    served = {queue for worker in snapshot.workers.values() for queue in worker.queues}
    for name, known in sorted(snapshot.agents.items()):
        if known.queue and known.queue not in served and snapshot.capable_workers(name):
            message = f"agent {name!r} waits in the queue {known.queue!r}, which no live worker serves"
            yield Finding("workers", Outcome.ERROR, message, f"start a worker with -Q {known.queue}")


def _fault(check: str, error: RetinueError) -> Finding:
    """An error that names its mend itself."""
    mend = getattr(error, "mend", None)
    text = str(error)
    message = text.partition(". To mend: ")[0] if mend else text
    return Finding(check, Outcome.ERROR, message, mend or "see the message")
