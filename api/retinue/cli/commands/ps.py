"""`retinue ps`: runs, workers and queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retinue.cli.options import Json, Tenant
from retinue.cli.output import age, document, note, reporting, say, table

if TYPE_CHECKING:
    from retinue.client.reading.live_workers import LiveWorker
    from retinue.client.reading.tree import SubagentNode


def ps(
    session: Annotated[
        str | None, typer.Option("--session", "-s", help="This session's runs, also those that have ended.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Most root runs that are shown.")] = 20,
    tenant: Tenant = "_",
    as_json: Json = False,
) -> None:
    """Show workers, queues, and the runs that are live."""
    with reporting(as_json):
        from retinue.broker.settings import load_settings
        from retinue.cli.facade import operator
        from retinue.client.dispatch.connections import connections_for
        from retinue.client.reading.live_runs import live_roots
        from retinue.client.reading.live_workers import count_queued, read_live_workers

        with operator(tenant) as lifecycle:
            connections = connections_for(load_settings())
            snapshot = connections.catalogue.snapshot(fresh=True)
            workers = [
                worker
                for worker in read_live_workers(connections.store, connections.link)
                if worker.entry.process in snapshot.workers
            ]
            queued = count_queued(connections.link, {load_settings().queue, *snapshot.queues})
            if session is None:
                roots, left_out = live_roots(connections.link, tenant, most=limit)
            else:
                roots, left_out = _roots_of_session(lifecycle.list(session_id=session, limit=limit)), 0
            trees = [lifecycle.tree(run_id) for run_id in roots]
        if as_json:
            document(_as_json(workers, queued, trees, left_out))
        else:
            _print(workers, queued, trees, session, left_out)


def _roots_of_session(found: Sequence[Any]) -> tuple[str, ...]:
    return tuple(status.handle.subagent_id for status in found if status.handle is not None)


def _as_json(
    workers: Sequence[LiveWorker],
    queued: Mapping[str, int],
    trees: Sequence[Sequence[SubagentNode]],
    left_out: int,
) -> Mapping[str, Any]:
    shown = [
        {
            "process": worker.entry.process,
            "host": worker.entry.host,
            "pid": worker.entry.pid,
            "started_at": worker.entry.started_at,
            "queues": list(worker.entry.queues),
            "agents": list(worker.entry.agents),
            "slots": worker.entry.slots,
            "runs": worker.runs,
        }
        for worker in workers
    ]
    return {
        "workers": shown,
        "queues": [{"name": name, "queued": count} for name, count in queued.items()],
        "runs": [node.to_dict() for tree in trees for node in tree],
        "roots_left_out": left_out,
    }


def _print(
    workers: Sequence[LiveWorker],
    queued: Mapping[str, int],
    trees: Sequence[Sequence[SubagentNode]],
    session: str | None,
    left_out: int,
) -> None:
    from retinue.cli.views.tree_view import tree_lines

    rows = [
        [
            f"{worker.entry.host}:{worker.entry.pid}",
            f"{worker.runs}/{worker.entry.slots}",
            age(worker.up_s),
            ",".join(worker.entry.queues),
            ",".join(worker.entry.agents),
        ]
        for worker in workers
    ]
    if rows:
        table(["WORKER", "RUNS", "UP", "QUEUES", "AGENTS"], rows)
    else:
        say("no live worker")
    say()
    table(["QUEUE", "QUEUED"], [[name, str(count)] for name, count in queued.items()])
    say()
    if not trees:
        say("no live run" if session is None else f"no run of session {session}")
    for tree in trees:
        for node, line in zip(tree, tree_lines(tree), strict=True):
            say(f"{node.run_id}  {line}")
    if left_out:
        note(f"... and {left_out} more root runs; --limit shows more")
