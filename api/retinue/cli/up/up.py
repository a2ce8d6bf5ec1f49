"""`retinue up`: an embedded Valkey, workers and the HTTP API, with one command and no server installed."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from retinue.cli.exits import ExitCode
from retinue.cli.output import note, say

if TYPE_CHECKING:
    from retinue.broker.embedded.server import EmbeddedValkey
    from retinue.broker.settings import Settings
    from retinue.cli.up.supervisor import Supervisor, WorkerSlot


def run_up(
    modules: Sequence[str],
    *,
    workers: int,
    concurrency: int | None,
    loglevel: str,
    web: bool = True,
    web_port: int | None = None,
    directory: Path | None = None,
) -> ExitCode:
    """Runs until a signal.

    Args:
        modules: with agents; empty = the setting `agents`.
        workers: how many processes; 0 = the server alone.
        concurrency: runs of one process at a time; None = Celery's default for Retinue.
        loglevel: of the workers and the HTTP API.
        web: whether to start the HTTP API and its page.
        web_port: its port; None = the setting http.port.
        directory: the embedded server's data; None = the user's state directory.

    Raises:
        RetinueError: a setting is wrong, a package of the extra `worker` is missing, or the server cannot be
            started.
    """
    from retinue.broker.embedded.server import EmbeddedValkey
    from retinue.broker.server.checks import require_server
    from retinue.broker.settings import load_settings
    from retinue.worker.extra import require_extra

    if workers:
        require_extra("the worker")
    settings = load_settings()
    agents = tuple(modules) or settings.agents
    if workers and not agents:
        note("no agent modules, so only the default agent: retinue up shop.agents, or set RETINUE_AGENTS")
    slots = _slots(workers, concurrency, loglevel, _may_have_web() if web else False, web_port)
    if settings.store_url is not None:
        # Checked here once, so that not every worker says the same.
        require_server(settings.required_store_url, durability=settings.durability)
        note("a store is set: using it instead of an embedded Valkey")
        return _supervisor(settings, agents, None, slots).run()
    server = EmbeddedValkey(directory, durability=settings.durability).start()
    shared = "shared with another `retinue up`" if server.attached else "started"
    note(f"embedded Valkey {shared}; data in {server.directory}")
    try:
        return _supervisor(settings, agents, server, slots).run()
    finally:
        server.stop()


def worker_command(number: int, *, concurrency: int | None, loglevel: str) -> list[str]:
    """The command line of a worker of `retinue up`."""
    # The process id keeps the names of two `retinue up` on one machine apart.
    name = f"up{number}-{os.getpid()}@%h"
    command = [sys.executable, "-m", "retinue.cli", "worker", "--hostname", name, "--loglevel", loglevel]
    return command if concurrency is None else [*command, "--concurrency", str(concurrency)]


def web_command(port: int | None, *, loglevel: str) -> list[str]:
    """The command line of the HTTP API of `retinue up`."""
    command = [sys.executable, "-m", "retinue.cli", "web", "--loglevel", loglevel]
    return command if port is None else [*command, "--port", str(port)]


def worker_environment(store_url: str, agents: Sequence[str]) -> Mapping[str, str]:
    """The environment of the processes of `retinue up`: this process's, with the store and the agents."""
    environment = {**os.environ, "RETINUE_STORE_URL": store_url}
    return {**environment, "RETINUE_AGENTS": ",".join(agents)} if agents else environment


def _may_have_web() -> bool:
    from retinue.cli.commands.web import MEND, missing_packages, what_is_missing

    missing = missing_packages()
    if missing:
        note(f"going on without the HTTP API: it needs {what_is_missing(missing)}. To mend: {MEND}.")
    return not missing


def _slots(
    workers: int, concurrency: int | None, loglevel: str, web: bool, web_port: int | None
) -> list[WorkerSlot]:
    from retinue.cli.up.supervisor import WorkerSlot

    slots = [
        WorkerSlot(f"worker {number}", worker_command(number, concurrency=concurrency, loglevel=loglevel))
        for number in range(1, workers + 1)
    ]
    if web:
        # Another `retinue up` on this machine may have its port.
        slots.append(WorkerSlot("web", web_command(web_port, loglevel=loglevel), essential=False))
    return slots


def _supervisor(
    settings: Settings, agents: Sequence[str], server: EmbeddedValkey | None, slots: Sequence[WorkerSlot]
) -> Supervisor:
    from retinue.cli.up.supervisor import Supervisor

    def on_store(url: str) -> None:
        if server is not None:
            note("in other shells:")
            say(f"export RETINUE_STORE_URL={shlex.quote(url)}")

    return Supervisor(
        slots,
        environment=lambda url: worker_environment(url, agents),
        store_url=server.url if server is not None else settings.store_url or "",
        server=server,
        drain_s=settings.drain_seconds,
        on_store=on_store,
        note=note,
    )
