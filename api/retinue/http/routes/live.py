"""What goes on now."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from retinue.client.reading.live_runs import read_live
from retinue.http.access import Reader
from retinue.http.json_answer import JsonAnswer
from retinue.http.schemas.live import LiveAnswer
from retinue.http.service import service_of

router = APIRouter(tags=["runs"])


@router.get("/v1/live", response_model=LiveAnswer)
async def live(request: Request, caller: Reader) -> Response:
    """All live runs of the tenant, over all its sessions: at most 2,000, of the newest trees."""
    found = await read_live(service_of(request).connections(), caller.tenant)
    return JsonAnswer({"runs": [run.to_dict() for run in found.runs], "left_out": found.left_out})
