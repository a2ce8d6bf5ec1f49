"""Launching runs, going on with them, and reading them."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from retinue.contract import SubagentHandle, SubagentState
from retinue.http.access import Reader, ReadTarget, Writer, WriteTarget, unknown_run
from retinue.http.idempotency import Facades, Idempotent
from retinue.http.json_answer import JsonAnswer
from retinue.http.routes.listing import runs_of
from retinue.http.run_pages import PAGE, PAGE_MAX, Cursor, Filter, read_page
from retinue.http.schemas.launch import ContinueBody, LaunchBody, LaunchManyBody
from retinue.http.schemas.runs import (
    LaunchedAnswer,
    LaunchedManyAnswer,
    ReconnectAnswer,
    ResultAnswer,
    RunsAnswer,
    StatusAnswer,
    TextAnswer,
    TreeAnswer,
)
from retinue.http.service import service_of
from retinue.http.webhooks.launches import check_webhooks
from retinue.http.withheld import as_seen_by

router = APIRouter(tags=["runs"])

_LOCATION: Final = {"headers": {"Location": {"description": "The run.", "schema": {"type": "string"}}}}


@router.post("/v1/runs", status_code=201, response_model=LaunchedAnswer, responses={201: _LOCATION})
async def launch(request: Request, body: LaunchBody, caller: Writer, once: Idempotent) -> Response:
    """Starts one run; once this is answered, it ends in exactly one terminal state."""

    async def work(facades: Facades) -> Response:
        await check_webhooks(service_of(request), body)
        return _launched(await facades(body.session_id).launch(body))

    return await once.answer(work)


@router.post("/v1/runs/batch", status_code=201, response_model=LaunchedManyAnswer)
async def launch_many(request: Request, body: LaunchManyBody, caller: Writer, once: Idempotent) -> Response:
    """Starts 1 to 100 runs of one session, all or none."""

    async def work(facades: Facades) -> Response:
        await check_webhooks(service_of(request), *body.requests)
        handles = await facades(body.session_id).launch_many(body.requests)
        return JsonAnswer({"runs": [_run(handle) for handle in handles]}, 201)

    return await once.answer(work)


@router.post(
    "/v1/runs/{run_id}/continue", status_code=201, response_model=LaunchedAnswer, responses={201: _LOCATION}
)
async def continue_run(body: ContinueBody, target: WriteTarget, once: Idempotent) -> Response:
    """Starts the next turn of the run's conversation."""

    async def work(facades: Facades) -> Response:
        lifecycle = facades(target.handle.parent_session_id)
        return _launched(await lifecycle.continue_run(target.handle, body.text, **body.changes))

    return await once.answer(work)


@router.get("/v1/runs", response_model=RunsAnswer)
async def list_runs(
    request: Request,
    caller: Reader,
    session: Annotated[
        str | None,
        Query(description="Root runs of this session, newest first.", examples=["customer-42"]),
    ] = None,
    tree: Annotated[
        str | None, Query(description="This run and all below it, parents first: a run id.")
    ] = None,
    state: Annotated[SubagentState | None, Query(description="Runs in this state only.")] = None,
    agent: Annotated[str | None, Query(description="Runs with this active agent only.")] = None,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX, description="Longest page.")] = PAGE,
    cursor: Annotated[str | None, Query(description="next_cursor of the page before.")] = None,
) -> Response:
    """Runs, page by page. With neither session nor tree: those of the tenant that have not ended.

    For one page 1,000 runs are looked at: where a filter lets few of them pass, a page may be short, or
    empty, and still have a next_cursor.
    """
    place = Cursor.read(cursor)
    runs = await runs_of(service_of(request), caller.tenant, session=session, tree=tree)
    page = await read_page(runs, Filter(state, agent), limit=limit, cursor=place)
    shown = [as_seen_by(caller, run.to_dict()) for run in page.runs]
    return JsonAnswer({"runs": shown, "next_cursor": page.next_cursor})


@router.get("/v1/runs/{run_id}", response_model=StatusAnswer)
async def status(target: ReadTarget) -> Response:
    """How the run stands now."""
    found = await target.lifecycle.status(target.handle)
    return _of_run(found.state, as_seen_by(target.caller, found.to_dict()))


@router.get("/v1/runs/{run_id}/tree", response_model=TreeAnswer)
async def tree(target: ReadTarget) -> Response:
    """The run and all its descendants, parents first."""
    nodes = await target.lifecycle.tree(target.handle)
    return JsonAnswer({"nodes": [node.to_dict() for node in nodes]})


@router.get("/v1/runs/{run_id}/result", response_model=ResultAnswer)
async def result(target: ReadTarget) -> Response:
    """What the run came to, the same each time; `ready` is false while it goes on."""
    found = await target.lifecycle.result(target.handle)
    return _of_run(found.terminal_state, as_seen_by(target.caller, found.to_dict()))


@router.get("/v1/runs/{run_id}/text", response_model=TextAnswer)
async def full_text(target: ReadTarget) -> Response:
    """The whole of the last text, where the result's summary is cut; null while the run goes on."""
    return JsonAnswer({"text": await target.lifecycle.full_text(target.handle)})


@router.get("/v1/runs/{run_id}/reconnect", response_model=ReconnectAnswer)
async def reconnect(target: ReadTarget) -> Response:
    """Whether the handle still leads to a run, after whatever restart; it never starts one."""
    return JsonAnswer((await target.lifecycle.reconnect(target.handle)).to_dict())


def _run(handle: SubagentHandle) -> dict[str, object]:
    return {"run_id": handle.subagent_id, "handle": handle.to_dict()}


def _launched(handle: SubagentHandle) -> Response:
    return JsonAnswer(_run(handle), 201, {"Location": f"/v1/runs/{handle.subagent_id}"})


def _of_run(state: SubagentState, answer: dict[str, object]) -> Response:
    if state is SubagentState.UNKNOWN:  # it expired while it was asked for
        raise unknown_run()
    return JsonAnswer(answer)
