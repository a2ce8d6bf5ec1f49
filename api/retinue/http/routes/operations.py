"""What there is to run, and what an operator looks after: workers, queues, dead letters."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from retinue.broker.reaper.backlog import known_queues, waited_in
from retinue.client.reading.live_workers import ask_async, count_queued_async, read_live_workers_async
from retinue.http.access import Admin, Reader
from retinue.http.json_answer import JsonAnswer
from retinue.http.named_pages import PAGE_DEFAULT, Limit, Place, named_page
from retinue.http.problems import Problem
from retinue.http.schemas.operations import (
    AgentsAnswer,
    QueuesAnswer,
    ToolsetsAnswer,
    WorkerAnswer,
    WorkersAnswer,
)
from retinue.http.service import service_of

router = APIRouter(tags=["operations"])

_HIDDEN: Final = ("digest", "stop_hooks")
"""Of an agent's entry: what only the parts of a deployment tell each other."""

_Process = Annotated[str, Path(description="A worker's process id.", max_length=64)]


@router.get("/v1/agents", response_model=AgentsAnswer)
async def agents(
    request: Request, caller: Reader, limit: Limit = PAGE_DEFAULT, cursor: Place = None
) -> Response:
    """The agents that may be launched: advertised by a worker in the last 30 days."""
    snapshot = await service_of(request).connections().catalogue.snapshot()
    page = named_page(snapshot.agents.values(), lambda agent: agent.name, limit=limit, cursor=cursor)
    shown = [
        {**_without(asdict(agent), _HIDDEN), "live": snapshot.can_run(agent.name)} for agent in page.items
    ]
    return JsonAnswer({"agents": shown, "next_cursor": page.next_cursor})


@router.get("/v1/toolsets", response_model=ToolsetsAnswer)
async def toolsets(
    request: Request, caller: Reader, limit: Limit = PAGE_DEFAULT, cursor: Place = None
) -> Response:
    """The tool sets that a launch may grant."""
    snapshot = await service_of(request).connections().catalogue.snapshot()
    page = named_page(snapshot.toolsets.items(), lambda item: item[0], limit=limit, cursor=cursor)
    shown = [{"name": name, "tools": sorted(tools)} for name, tools in page.items]
    return JsonAnswer({"toolsets": shown, "next_cursor": page.next_cursor})


@router.get("/v1/workers", response_model=WorkersAnswer)
async def workers(
    request: Request, caller: Admin, limit: Limit = PAGE_DEFAULT, cursor: Place = None
) -> Response:
    """The worker processes, with what they hold and how long their lease lasts without renewal."""
    connections = service_of(request).connections()
    found = await read_live_workers_async(connections.store, connections.link)
    page = named_page(
        found,
        lambda each: f"{each.entry.host}\0{each.entry.started_at:020.6f}\0{each.entry.process}",
        limit=limit,
        cursor=cursor,
    )
    return JsonAnswer(
        {"workers": [worker.to_dict() for worker in page.items], "next_cursor": page.next_cursor}
    )


@router.post("/v1/workers/{process}/drain", status_code=202, response_model=WorkerAnswer)
async def drain(request: Request, caller: Admin, process: _Process) -> Response:
    """Lets a worker process hand its runs back and end, as SIGTERM does, wherever it runs.

    It takes no more work at once; runs go on elsewhere from their next iteration boundary. The answer does
    not wait for that. What keeps the process alive, such as systemd, then starts a new one.
    """
    connections = service_of(request).connections()
    found = await read_live_workers_async(connections.store, connections.link)
    chosen = next((each for each in found if each.entry.process == process), None)
    # One that has a single run to itself ends with the worker that started it.
    if chosen is None or chosen.lease_ms is None or not chosen.entry.agents:
        raise Problem(
            "NOT_FOUND",
            404,
            "no live worker has this process id",
            field="process",
            mend="take one that GET /v1/workers shows",
        )
    await ask_async(connections.store, chosen)
    return JsonAnswer({**chosen.to_dict(), "drain_asked": True}, 202)


@router.get("/v1/queues", response_model=QueuesAnswer)
async def queues(
    request: Request, caller: Admin, limit: Limit = PAGE_DEFAULT, cursor: Place = None
) -> Response:
    """The queues, with how many runs of all tenants wait in each, and who serves it."""
    service = service_of(request)
    connections = service.connections()
    snapshot = await connections.catalogue.snapshot()
    names = known_queues(service.settings, snapshot, await waited_in(connections.link))
    page = named_page(names, lambda name: name, limit=limit, cursor=cursor)
    queued = await count_queued_async(connections.link, page.items)
    served = Counter(queue for worker in snapshot.takers for queue in worker.queues)
    shown = [{"name": name, "queued": queued[name], "workers": served[name]} for name in page.items]
    return JsonAnswer({"queues": shown, "next_cursor": page.next_cursor})


def _without(values: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}
