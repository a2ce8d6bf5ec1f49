"""What goes over the wire: server-sent events as bytes. Pure.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event

from retinue.contract import Event

if TYPE_CHECKING:
    from retinue.http.streams.log import Gap

KEEP_ALIVE: Final = KEEPALIVE_COMMENT
"""A comment: it carries no id, so that it moves no client on."""


def event_frame(event: Event) -> bytes:
    """An event of the log; its id is where to resume."""
    return format_sse_event(id=str(event.sequence), event=event.type.value, data_str=_json(event.to_dict()))


def gap_frame(gap: Gap) -> bytes:
    """Tells what is missing; its id is where to resume."""
    return format_sse_event(id=str(gap.resumes_after), event="gap", data_str=_json(gap_members(gap)))


def gap_members(gap: Gap) -> dict[str, int | None]:
    """What a gap tells, as JSON values."""
    return {"from": gap.first, "to": gap.last}


def end_frame(run_id: str, state: str | None) -> bytes:
    """Ends a stream in whose log no run.finished of its run is to be had."""
    return format_sse_event(event="end", data_str=_json({"run_id": run_id, "state": state}))


def passing_frame(kind: str, members: Mapping[str, object]) -> bytes:
    """Something that is not kept: it has no id."""
    return format_sse_event(event=kind, data_str=_json(members))


def retry_frame(milliseconds: int) -> bytes:
    """How long a client is to wait before it connects again."""
    return format_sse_event(retry=milliseconds)


def _json(members: Mapping[str, object]) -> str:
    # ASCII: what a model wrote may hold lone surrogates.
    return json.dumps(members, separators=(",", ":"))
