"""What runs ask of humans, and what humans decide."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from retinue.http.access import ReadTarget, WriteTarget
from retinue.http.idempotency import Facades, Idempotent
from retinue.http.json_answer import JsonAnswer
from retinue.http.schemas.bodies import AnswerBody, ApproveBody, DenyBody
from retinue.http.schemas.control import DecisionAnswer, PendingAnswer

router = APIRouter(tags=["decisions"])


@router.get("/v1/runs/{run_id}/pending", response_model=PendingAnswer)
async def pending(target: ReadTarget) -> Response:
    """What the run, and all below it, ask now, with the exact arguments of each call."""
    asked = await target.lifecycle.pending(target.handle)
    return JsonAnswer({"requests": [request.to_dict() for request in asked]})


@router.post("/v1/runs/{run_id}/approve", response_model=DecisionAnswer)
async def approve(body: ApproveBody, target: WriteTarget, once: Idempotent) -> Response:
    """Lets one call go on, once, with exactly the arguments that were shown."""

    async def work(_: Facades) -> Response:
        return JsonAnswer((await target.lifecycle.approve(target.handle, body.request_id)).to_dict())

    return await once.answer(work)


@router.post("/v1/runs/{run_id}/deny", response_model=DecisionAnswer)
async def deny(body: DenyBody, target: WriteTarget, once: Idempotent) -> Response:
    """Refuses one call; the model reads why and goes on without it."""

    async def work(_: Facades) -> Response:
        done = await target.lifecycle.deny(target.handle, body.request_id, body.reason or "")
        return JsonAnswer(done.to_dict())

    return await once.answer(work)


@router.post("/v1/runs/{run_id}/answer", response_model=DecisionAnswer)
async def answer(body: AnswerBody, target: WriteTarget, once: Idempotent) -> Response:
    """Gives what a run asked for; the model reads it as the call's result."""

    async def work(_: Facades) -> Response:
        done = await target.lifecycle.answer(target.handle, body.request_id, body.value)
        return JsonAnswer(done.to_dict())

    return await once.answer(work)
