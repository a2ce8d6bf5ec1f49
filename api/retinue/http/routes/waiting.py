"""Waiting for runs, for one or for several, up to a minute at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, cast

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from retinue.client import AsyncSubagentLifecycle
from retinue.contract import SubagentState, SubagentTerminalState, WaitUntil
from retinue.http.access import Reader, ReadTarget, unknown_run
from retinue.http.json_answer import JsonAnswer
from retinue.http.long_poll import long_poll
from retinue.http.schemas.bodies import WAIT_MAX_S, WAIT_S, ResultsBody, WaitBody
from retinue.http.schemas.runs import EndAnswer, EndsAnswer, ResultsAnswer
from retinue.http.service import service_of
from retinue.http.withheld import as_seen_by, is_withheld

router = APIRouter(tags=["waiting"])


@router.get("/v1/runs/{run_id}/wait", response_model=EndAnswer)
async def wait(
    request: Request,
    target: ReadTarget,
    timeout_seconds: Annotated[
        float, Query(ge=0, le=WAIT_MAX_S, allow_inf_nan=False, description="0 = look once.")
    ] = WAIT_S,
    until: Annotated[
        WaitUntil, Query(description="`asked` = return also once a human is asked something.")
    ] = WaitUntil.END,
) -> Response:
    """Waits for the run's end. A wait that times out changes nothing: wait again."""
    lifecycle, handle = target.lifecycle, target.handle
    end = await long_poll(request, lifecycle.wait(handle, timeout_seconds, until=until))
    if end is None:
        end = await lifecycle.wait(handle, 0, until=until)
    if end.state is SubagentState.UNKNOWN:
        raise unknown_run()
    return JsonAnswer(as_seen_by(target.caller, end.to_dict()))


@router.post("/v1/wait", response_model=EndsAnswer)
async def wait_for_several(request: Request, body: WaitBody, caller: Reader) -> Response:
    """Waits for one of several runs, or for all; an unknown one counts as ended."""
    lifecycle = service_of(request).operator(caller.tenant)
    handles = await _handles(lifecycle, body.runs)
    of_mode = lifecycle.wait_any if body.mode == "any" else lifecycle.wait_all
    ends: Sequence[SubagentTerminalState] | None
    ends = await long_poll(request, of_mode(handles, body.timeout_seconds))
    if ends is None:
        ends = await of_mode(handles, 0)
    return JsonAnswer({"states": [as_seen_by(caller, end.to_dict()) for end in ends]})


@router.post("/v1/results", response_model=ResultsAnswer)
async def results(request: Request, body: ResultsBody, caller: Reader) -> Response:
    """What several runs came to, in few round trips."""
    lifecycle = service_of(request).operator(caller.tenant)
    found = await lifecycle.results(await _handles(lifecycle, body.runs))
    return JsonAnswer({"results": [as_seen_by(caller, result.to_dict()) for result in found]})


async def _handles(lifecycle: AsyncSubagentLifecycle, runs: Sequence[object]) -> list[object]:
    """What the facade takes for each run; an id that leads nowhere stays one, and is UNKNOWN to it."""
    named = [_run_id(run) for run in runs]
    made = iter(await asyncio.gather(*(lifecycle.handle(run_id) for run_id in named if run_id is not None)))
    return [run if run_id is None else next(made) or run_id for run, run_id in zip(runs, named, strict=True)]


def _run_id(run: object) -> object:
    """The id under which a run is looked for; None = by its handle."""
    if isinstance(run, Mapping) and is_withheld(run):
        return cast("Mapping[str, object]", run).get("subagent_id")
    return run if isinstance(run, str) else None
