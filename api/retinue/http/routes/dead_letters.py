"""Dead letters: runs that were given up because their worker processes were lost again and again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from retinue.client import AsyncSubagentLifecycle, DeadLetter
from retinue.contract import COUNT_MAX, ErrorCode
from retinue.http.access import Admin
from retinue.http.idempotency import Facades, Idempotent
from retinue.http.json_answer import JsonAnswer
from retinue.http.named_pages import PAGE_DEFAULT, Limit, Place, read_place, written_place
from retinue.http.problems import Problem
from retinue.http.schemas.operations import DeadLetterAnswer, DeadLettersAnswer, DiscardAnswer
from retinue.http.schemas.runs import LaunchedAnswer
from retinue.http.service import service_of

router = APIRouter(tags=["operations"])

_Run = Annotated[str, Path(description="The lost run's id.", examples=["sa-p07-" + "a" * 26])]


@router.get("/v1/dead-letters", response_model=DeadLettersAnswer)
async def dead_letters(
    request: Request, caller: Admin, limit: Limit = PAGE_DEFAULT, cursor: Place = None
) -> Response:
    """The tenant's dead letters, newest first, without their requests. They are kept for 7 days."""
    lifecycle = service_of(request).operator(caller.tenant)
    behind, last = (0, None) if cursor is None else _place(*read_place(cursor, int, float, str))
    found = await _after(lifecycle, behind, last, limit + 1)
    page, place = found[:limit], None
    if len(found) > limit:
        place = written_place(behind + limit, float(page[-1].ended_at), page[-1].run_id)
    return JsonAnswer({"dead_letters": [letter.to_dict() for letter in page], "next_cursor": place})


@router.get("/v1/dead-letters/{run_id}", response_model=DeadLetterAnswer)
async def dead_letter(request: Request, caller: Admin, run_id: _Run) -> Response:
    """A dead letter, with the request that it stands for."""
    letter = await service_of(request).operator(caller.tenant).dead_letter(run_id)
    if letter is None:
        raise _unknown()
    return JsonAnswer(letter.to_dict())


@router.post("/v1/dead-letters/{run_id}/replay", status_code=201, response_model=LaunchedAnswer)
async def replay(request: Request, caller: Admin, run_id: _Run, once: Idempotent) -> Response:
    """Starts the request of a dead letter again, as a new run, and takes the letter away."""

    async def work(_: Facades) -> Response:
        # What is started once is told by the letter: whoever takes it away starts the run.
        handle = await service_of(request).operator(caller.tenant).replay(run_id)
        location = {"Location": f"/v1/runs/{handle.subagent_id}"}
        return JsonAnswer({"run_id": handle.subagent_id, "handle": handle.to_dict()}, 201, location)

    return await once.answer(work)


@router.delete("/v1/dead-letters/{run_id}", response_model=DiscardAnswer)
async def discard(request: Request, caller: Admin, run_id: _Run) -> Response:
    """Throws a dead letter away."""
    if not await service_of(request).operator(caller.tenant).discard(run_id):
        raise _unknown()
    return JsonAnswer({"discarded": True})


def _place(behind: int, ended_at: float, run_id: str) -> tuple[int, tuple[float, str]]:
    return max(0, min(behind, COUNT_MAX)), (ended_at, run_id)


async def _after(
    lifecycle: AsyncSubagentLifecycle, behind: int, last: tuple[float, str] | None, count: int
) -> Sequence[DeadLetter]:
    """The letters behind a place: as many as are wanted, or all that there are."""
    most = behind + count
    while True:
        found = await lifecycle.dead_letters(limit=min(most, COUNT_MAX))
        rest = [letter for letter in found if last is None or (letter.ended_at, letter.run_id) < last]
        if len(rest) >= count or len(found) < most:
            return rest[:count]
        most *= 2  # others have come before the place meanwhile


def _unknown() -> Problem:
    return Problem(
        ErrorCode.UNKNOWN_HANDLE,
        404,
        "there is no such dead letter: replayed, discarded, expired, or never there",
        field="run_id",
        mend="take one that GET /v1/dead-letters shows",
    )
