"""What a session has used."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from retinue.client.reading.session_usage import read_session_usage
from retinue.contract import validate_session
from retinue.http.access import Reader
from retinue.http.json_answer import JsonAnswer
from retinue.http.schemas.operations import SessionUsageAnswer
from retinue.http.service import service_of

router = APIRouter(tags=["runs"])


@router.get("/v1/usage", response_model=SessionUsageAnswer)
async def usage(
    request: Request,
    caller: Reader,
    session: Annotated[str, Query(description="Whose runs.", examples=["customer-42"])],
    agent: Annotated[str | None, Query(description="Runs with this active agent only.")] = None,
) -> Response:
    """What the session's runs have used, those below them included.

    Only runs that are kept count: a tree is, until result_ttl_seconds after its last run has ended. Of a
    session with very many, the newest 1,000 root runs are looked at.
    """
    service = service_of(request)
    session_id, lifecycle = validate_session(session, field="session"), service.operator(caller.tenant)
    found = await read_session_usage(service.connections(), lifecycle, caller.tenant, session_id, agent)
    return JsonAnswer(found.to_dict())
