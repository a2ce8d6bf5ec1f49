"""`retinue ps`: runs, workers and queues."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retinue.cli.options import Json, Tenant
from retinue.cli.output import age, document, note, reporting, say, table

if TYPE_CHECKING:
    from retinue.broker.catalogue import CatalogueSnapshot, WorkerEntry
    from retinue.cli.live_runs import Indexes
    from retinue.client.tree import SubagentNode


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
        from retinue.cli.live_runs import live_roots, read_indexes
        from retinue.client.connections import connections_for

        with operator(tenant) as lifecycle:
            connections = connections_for(load_settings())
            snapshot = connections.catalogue.snapshot(fresh=True)
            queues = sorted({load_settings().queue, *snapshot.queues})
            indexes = read_indexes(connections.link, queues, sorted(snapshot.workers))
            roots = (
                live_roots(connections.link, tenant, indexes)
                if session is None
                else _roots_of_session(lifecycle.list(session_id=session, limit=limit))
            )
            trees = [lifecycle.tree(run_id) for run_id in roots[:limit]]
        left_out = max(0, len(roots) - limit)
        if as_json:
            document(_as_json(snapshot, indexes, trees, left_out))
        else:
            _print(snapshot, indexes, trees, session, left_out)


def _roots_of_session(found: Sequence[Any]) -> tuple[str, ...]:
    return tuple(status.handle.subagent_id for status in found if status.handle is not None)


def _as_json(
    snapshot: CatalogueSnapshot, indexes: Indexes, trees: Sequence[Sequence[SubagentNode]], left_out: int
) -> Mapping[str, Any]:
    workers = [
        {
            "process": worker.process,
            "host": worker.host,
            "pid": worker.pid,
            "started_at": worker.started_at,
            "queues": list(worker.queues),
            "agents": list(worker.agents),
            "slots": worker.slots,
            "runs": indexes.claimed.get(worker.process, 0),
        }
        for worker in _sorted(snapshot)
    ]
    return {
        "workers": workers,
        "queues": [{"name": name, "queued": count} for name, count in sorted(indexes.queued.items())],
        "runs": [node.to_dict() for tree in trees for node in tree],
        "roots_left_out": left_out,
    }


def _print(
    snapshot: CatalogueSnapshot,
    indexes: Indexes,
    trees: Sequence[Sequence[SubagentNode]],
    session: str | None,
    left_out: int,
) -> None:
    from retinue.cli.tree_view import tree_lines

    rows = [
        [
            f"{worker.host}:{worker.pid}",
            f"{indexes.claimed.get(worker.process, 0)}/{worker.slots}",
            age(time.time() - worker.started_at),
            ",".join(worker.queues),
            ",".join(worker.agents),
        ]
        for worker in _sorted(snapshot)
    ]
    if rows:
        table(["WORKER", "RUNS", "UP", "QUEUES", "AGENTS"], rows)
    else:
        say("no live worker")
    say()
    table(["QUEUE", "QUEUED"], [[name, str(count)] for name, count in sorted(indexes.queued.items())])
    say()
    if not trees:
        say("no live run" if session is None else f"no run of session {session}")
    for tree in trees:
        for node, line in zip(tree, tree_lines(tree), strict=True):
            say(f"{node.run_id}  {line}")
    if left_out:
        note(f"... and {left_out} more root runs; --limit shows more")


def _sorted(snapshot: CatalogueSnapshot) -> list[WorkerEntry]:
    return sorted(snapshot.workers.values(), key=lambda worker: (worker.host, worker.started_at, worker.pid))
