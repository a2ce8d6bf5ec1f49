"""Questions to a support agent over HTTP: asking gives a handle, and the handle gives the answer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from retinue.client import AsyncSubagentLifecycle, ErrorCode, SubagentLifecycleError, SubagentState

_NOT_NOW = {ErrorCode.STORE_UNAVAILABLE, ErrorCode.LAUNCH_UNKNOWN, ErrorCode.NO_WORKER}


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[dict[str, Any]]:
    """One facade for the process; it connects at its first call."""
    async with AsyncSubagentLifecycle(session_id="helpdesk") as lifecycle:
        yield {"lifecycle": lifecycle}


def facade(request: Request) -> AsyncSubagentLifecycle:
    """The facade of this process."""
    return request.state.lifecycle


app = FastAPI(title="Help desk", lifespan=lifespan)
Lifecycle = Annotated[AsyncSubagentLifecycle, Depends(facade)]


class Question(BaseModel):
    """What a customer asks."""

    text: str = Field(min_length=1, max_length=2_000)
    ticket: str | None = Field(default=None, max_length=50)


@app.post("/questions", status_code=202)
async def ask(question: Question, lifecycle: Lifecycle) -> dict[str, Any]:
    """Launches the agent; the caller keeps the handle. The same ticket is not worked on twice."""
    handle = await lifecycle.launch(
        agent="support", goal=question.text, correlation_id=question.ticket, on_duplicate="return"
    )
    return handle.to_dict()


@app.post("/answers")
async def answer(
    handle: dict[str, Any],
    lifecycle: Lifecycle,
    response: Response,
    wait_seconds: Annotated[float, Query(ge=0, le=30)] = 0,
) -> dict[str, Any]:
    """The result of a run that has ended (200), or how it stands (202); 404 for a handle that is not ours."""
    await lifecycle.wait(handle, timeout_seconds=wait_seconds)
    result = await lifecycle.result(handle)
    if result.ready:
        return result.to_dict()
    status = await lifecycle.status(handle)
    if status.state is SubagentState.UNKNOWN:
        raise HTTPException(404, "no such question")
    response.status_code = 202
    return status.to_dict()


@app.exception_handler(SubagentLifecycleError)
async def refused(_request: Request, error: SubagentLifecycleError) -> JSONResponse:
    """Says what was wrong with the request, or that it is worth trying again."""
    return JSONResponse({"detail": str(error)}, 503 if error.code in _NOT_NOW else 422)
