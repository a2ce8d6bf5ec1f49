"""What was said in a run's conversation."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from retinue.client.reading.conversation import Speakers, shown_messages
from retinue.contract import COUNT_MAX, Event, SubagentLifecycleError
from retinue.http.access import ReadTarget, RunTarget, unknown_run
from retinue.http.json_answer import JsonAnswer
from retinue.http.named_pages import PAGE_DEFAULT, Limit, read_place, written_place
from retinue.http.schemas.messages import MessagesAnswer
from retinue.http.service import service_of
from retinue.store.call import RunKey
from retinue.store.operations.reading import count_messages, read_messages, read_status
from retinue.store.record import Record

router = APIRouter(tags=["runs"])

_Older = Annotated[
    str | None, Query(description="next_cursor of the page before, for what was said earlier.")
]


@router.get("/v1/runs/{run_id}/messages", response_model=MessagesAnswer)
async def messages(
    request: Request, target: ReadTarget, limit: Limit = PAGE_DEFAULT, cursor: _Older = None
) -> Response:
    """What was said in the run's conversation, also in its earlier runs; the newest page first.

    Without what models think to themselves. A text is cut after 16,000 characters.
    """
    store = service_of(request).connections().store
    key = RunKey(target.caller.tenant, target.handle.subagent_id)
    view = await store.run(read_status(key))
    if view is None:
        raise unknown_run()
    record = view.record
    thread = (key.tenant, key.run_id, record.thread_id)
    if cursor is None:
        end, after = await store.run(count_messages(*thread)), 0
    else:
        end, after = _checked(*read_place(cursor, int, int))
    first = max(0, end - limit)
    entries = await store.run(read_messages(*thread, place=first, most=end - first)) if end else []
    shown, after = shown_messages(entries, await _speakers(target, record), after=after)
    answer = {
        "messages": [message.to_dict() for message in shown],
        "next_cursor": written_place(first, after) if first else None,
    }
    return JsonAnswer(answer)


def _checked(end: int, after: int) -> tuple[int, int]:
    if not 0 < end <= COUNT_MAX or not 0 <= after <= COUNT_MAX:
        raise SubagentLifecycleError(
            "is no cursor of this list",
            field="cursor",
            limit="next_cursor of the page before",
            mend="leave it out to begin anew",
        )
    return end, after


async def _speakers(target: RunTarget, record: Record) -> Speakers:
    iterations = record.recorded_iteration
    if not record.handoffs:
        return Speakers(record.agent, iterations)
    run_id = target.handle.subagent_id
    events: list[Event] = [event async for event in target.lifecycle.events(run_id)]
    return Speakers.of(run_id, record.agent, iterations, events)
