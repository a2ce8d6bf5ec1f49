"""Steering, stopping, paying for and removing runs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from retinue.contract import SteerState
from retinue.http.access import ReadTarget, WriteTarget, unknown_run
from retinue.http.json_answer import JsonAnswer
from retinue.http.schemas.bodies import BudgetBody, ReasonBody, SteerBody
from retinue.http.schemas.control import CancelAnswer, PurgeAnswer, RaiseAnswer
from retinue.http.schemas.runs import ReceiptAnswer

router = APIRouter(tags=["control"])


@router.post("/v1/runs/{run_id}/steers", status_code=202, response_model=ReceiptAnswer)
async def steer(body: SteerBody, target: WriteTarget) -> Response:
    """Sends a message that the model sees at its next iteration."""
    receipt = await target.lifecycle.send_steer(target.handle, body.text, steer_id=body.steer_id)
    if receipt.state is SteerState.UNKNOWN:
        raise unknown_run()
    return JsonAnswer(receipt.to_dict(), 202)


@router.get("/v1/runs/{run_id}/steers/{steer_id}", response_model=ReceiptAnswer)
async def steer_receipt(steer_id: str, target: ReadTarget) -> Response:
    """What became of a message: queued, delivered in an iteration, or missed."""
    return JsonAnswer((await target.lifecycle.steer_status(target.handle, steer_id)).to_dict())


@router.post("/v1/runs/{run_id}/cancel", response_model=CancelAnswer)
async def cancel(target: WriteTarget, body: ReasonBody | None = None) -> Response:
    """Stops a run and all below it, for good."""
    done = await target.lifecycle.cancel(target.handle, body.reason if body else None)
    if done.unknown_handle:
        raise unknown_run()
    return JsonAnswer(done.to_dict())


@router.post("/v1/runs/{run_id}/interrupt", response_model=CancelAnswer)
async def interrupt(target: WriteTarget, body: ReasonBody | None = None) -> Response:
    """Ends a run at its next iteration boundary, with the text that it has so far."""
    done = await target.lifecycle.interrupt(target.handle, body.reason if body else None)
    if done.unknown_handle:
        raise unknown_run()
    return JsonAnswer(done.to_dict())


@router.post("/v1/runs/{run_id}/budget", response_model=RaiseAnswer)
async def raise_budget(body: BudgetBody, target: WriteTarget) -> Response:
    """Raises caps of the run's own budget; what waited for that goes on."""
    done = await target.lifecycle.raise_budget(target.handle, **body.caps)
    if done.unknown_handle:
        raise unknown_run()
    return JsonAnswer(done.to_dict())


@router.delete("/v1/runs/{run_id}", response_model=PurgeAnswer)
async def purge(
    target: WriteTarget,
    conversation: Annotated[bool, Query(description="With the conversation that it is a turn of.")] = True,
) -> Response:
    """Removes a run that has ended, with all below it, and what they said, from the store."""
    done = await target.lifecycle.purge(target.handle, conversation=conversation)
    if done.unknown_handle:
        raise unknown_run()
    return JsonAnswer(done.to_dict())
