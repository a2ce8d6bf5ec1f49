"""A run's events: page by page, and as they come."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from retinue.contract import ErrorCode
from retinue.http.access import ReadTarget
from retinue.http.json_answer import JsonAnswer
from retinue.http.problems import Problem
from retinue.http.run_pages import PAGE, PAGE_MAX
from retinue.http.schemas.events import EventsAnswer
from retinue.http.service import service_of
from retinue.http.streams.frames import gap_members
from retinue.http.streams.opening import open_stream, read_page
from retinue.http.streams.response import EventStreamResponse
from retinue.store.call import RunKey

router = APIRouter(tags=["events"])


class EventScope(StrEnum):
    """Whose events."""

    TREE = "tree"
    RUN = "run"


_PLACE_MAX: Final = 999_999_999_999_999

After = Annotated[
    int,
    Query(ge=0, le=_PLACE_MAX, description="Sequence of the last event that you have; 0 = none."),
]
Whose = Annotated[
    EventScope, Query(description="`tree`: of the run's whole tree. `run`: of the run and those below it.")
]
_STREAMED: Final[dict[str, Any]] = {
    "description": "Server-sent events; the run's own `run.finished` comes last.",
    "content": {
        "text/event-stream": {
            "schema": {
                "type": "object",
                "description": "One event of the stream, by the names of its lines.",
                "properties": {name: {"type": "string"} for name in ("id", "event", "data", "retry")},
            },
            "example": 'retry: 2000\n\nevent: run.started\ndata: {"sequence":2}\nid: 2\n\n',
        }
    },
}
_PLACE: Final = r"^[0-9]{0,15}$"
_NOTHING_LEFT: Final = {"description": "The run has ended, and you have all of its events: do not reconnect."}


@router.get("/v1/runs/{run_id}/events", response_model=EventsAnswer)
async def list_events(
    request: Request,
    target: ReadTarget,
    after: After = 0,
    scope: Whose = EventScope.TREE,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX, description="Longest page.")] = PAGE,
) -> Response:
    """The events of the run's tree, oldest first."""
    key = RunKey(target.caller.tenant, target.handle.subagent_id)
    page = await read_page(
        service_of(request), key, after=after, limit=limit, whole_tree=scope is EventScope.TREE
    )
    return JsonAnswer(
        {
            "events": [entry.event.to_dict() for entry in page.entries if entry.event is not None],
            "gaps": [gap_members(gap) for gap in page.gaps],
            "next_after": page.after,
        }
    )


@router.get(
    "/v1/runs/{run_id}/events/stream",
    status_code=200,
    response_class=EventStreamResponse,
    responses={200: _STREAMED, 204: _NOTHING_LEFT},
)
async def stream_events(
    request: Request,
    target: ReadTarget,
    after: After = 0,
    scope: Whose = EventScope.TREE,
    deltas: Annotated[
        bool, Query(description="Also what is not kept: `model.delta` and `tool.progress`, without ids.")
    ] = False,
    last_event_id: Annotated[
        str,
        Header(
            description="Id of the last event that you have; wins over `after`.",
            examples=["17"],
            json_schema_extra={"pattern": _PLACE},
        ),
    ] = "",
) -> Response:
    """The events of the run's tree as they come, until the run's end."""
    service = service_of(request)
    stream = await open_stream(
        service,
        RunKey(target.caller.tenant, target.handle.subagent_id),
        after=_place(last_event_id) if last_event_id else after,
        whole_tree=scope is EventScope.TREE,
        takes_news=deltas,
    )
    if stream is None:
        return Response(status_code=204)
    return EventStreamResponse(
        stream,
        access=service.access_watch.watching(target.caller),
        send_timeout_s=service.settings.http.stream_send_timeout_seconds,
    )


def _place(last_event_id: str) -> int:
    if not re.fullmatch(_PLACE, last_event_id, re.ASCII):
        raise Problem(
            ErrorCode.INVALID_REQUEST,
            422,
            "is no id of an event",
            field="Last-Event-ID",
            limit=f"a whole number from 0 to {_PLACE_MAX:,}",
            mend="send the id of the last event that you have, or leave the header out",
        )
    return int(last_event_id)
