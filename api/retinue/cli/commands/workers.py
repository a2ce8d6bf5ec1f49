"""`retinue workers list` and `retinue workers drain`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from retinue.cli.options import Json
from retinue.cli.output import age, document, note, problem, reporting, say, table

if TYPE_CHECKING:
    from retinue.client.dispatch.connections import Connections
    from retinue.client.reading.live_workers import LiveWorker

workers = typer.Typer(
    name="workers",
    help="Show worker processes, and let them end in good order.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@workers.command("list")
def list_workers(as_json: Json = False) -> None:
    """List the worker processes, with what they hold and how long their lease lasts without renewal."""
    with reporting(as_json):
        from retinue.client.reading.live_workers import read_live_workers

        connections = _connections()
        found = read_live_workers(connections.store, connections.link)
        if as_json:
            document({"workers": [worker.to_dict() for worker in found]})
        elif found:
            _print(found)
        else:
            say("no worker")


@workers.command("drain")
def drain(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="Celery's name (w1@host), host:pid, or the process id or its beginning.",
            show_default=False,
        ),
    ] = None,
    everyone: Annotated[bool, typer.Option("--all", help="Every live worker process.")] = False,
    as_json: Json = False,
) -> None:
    """Let a worker process hand its runs back and end, as SIGTERM does, wherever it runs.

    It takes no more work at once. Runs go on elsewhere from their next iteration boundary; model and tool
    calls in flight get drain_seconds. The command does not wait for that: `retinue workers list` shows it.
    What keeps the process alive, such as systemd, then starts a new one.
    """
    if (name is None) is not everyone:
        raise typer.BadParameter("give either the NAME of one worker or --all")
    with reporting(as_json):
        from retinue.client.reading.live_workers import ask, named, read_live_workers

        connections = _connections()
        everybody = read_live_workers(connections.store, connections.link)
        live = [worker for worker in everybody if worker.lease_ms is not None]
        # One that has a single run to itself ends with the worker that started it.
        chosen = [each for each in live if each.entry.agents] if name is None else named(live, name)
        if name is not None and len(chosen) != 1:
            raise _not_one(name, chosen, as_json)
        for worker in chosen:
            ask(connections.store, worker)
    if as_json:
        document({"asked": [worker.to_dict() for worker in chosen]})
        return
    for worker in chosen:
        say(f"asked {worker.label} to drain")
    if not chosen:
        note("no live worker")


def _connections() -> Connections:
    from retinue.broker.settings import load_settings
    from retinue.client.dispatch.connections import connections_for

    return connections_for(load_settings())


def _not_one(name: str, found: Sequence[LiveWorker], as_json: bool) -> typer.Exit:
    mend = "give a name that `retinue workers list` shows"
    if not found:
        return problem(f"no live worker is named {name!r}", mend=mend, as_json=as_json)
    listed = ", ".join(worker.entry.process for worker in found)
    return problem(
        f"{len(found)} live workers are named {name!r}: {listed}",
        mend="give the process id of one of them",
        as_json=as_json,
    )


def _print(found: Sequence[LiveWorker]) -> None:
    rows = [
        [
            worker.entry.name or "-",
            f"{worker.entry.host}:{worker.entry.pid}",
            worker.entry.process[:12],
            age(worker.up_s),
            f"{worker.runs}/{worker.entry.slots}",
            "lost" if worker.lease_ms is None else f"{worker.lease_ms / 1000:.1f}s",
            "yes" if worker.entry.draining else "asked" if worker.drain_asked else "no",
            ",".join(worker.entry.queues) or "-",
        ]
        for worker in found
    ]
    table(["NAME", "HOST:PID", "PROCESS", "UP", "RUNS", "LEASE", "DRAINING", "QUEUES"], rows)
    if any(worker.lease_ms is None for worker in found):
        note("a worker without a lease is dead, or frozen; its runs are taken over")
