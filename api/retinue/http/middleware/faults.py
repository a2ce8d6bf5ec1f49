"""The last catch: whatever a request ends in, its caller gets problem+json and its trace no text."""

from __future__ import annotations

import asyncio
import logging
import traceback

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from retinue.http.problems import Problem, problem_of

_log = logging.getLogger("retinue.http")


class Faults:
    """Answers what nothing before it has answered: refusals of the middleware, errors that nobody raised on
    purpose, and requests that are cut off at the end of the process.

    Args:
        stopping: Set when the process was told to end.
    """

    def __init__(self, app: ASGIApp, stopping: asyncio.Event) -> None:
        self._app = app
        self._stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def send_noted(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, send_noted)
        except asyncio.CancelledError:
            if not self._stopping.is_set():
                raise
            # The server has no further use for the task, and would log where it stood as a fault.
            if not has_begun:
                await _cut_off().response(scope["state"]["request_id"])(scope, receive, send)
        except Exception as error:
            request_id = scope["state"]["request_id"]
            problem = problem_of(error)
            if problem.status == 500:
                _log.error("http.fault request=%s %s", request_id, trace_of(error))
            if not has_begun:
                await problem.response(request_id)(scope, receive, send)
            # Else the answer breaks off, which the server sees and the caller too.


def _cut_off() -> Problem:
    return Problem(
        "STOPPING", 503, "the server ends, and cut the request off", headers={"Connection": "close"}
    )


def trace_of(error: BaseException) -> str:
    """Kind and places of an error and of those it groups, without their texts: these may quote a prompt."""
    lines = [f"error={type(error).__name__}\n", *traceback.format_tb(error.__traceback__)]
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()  # pyright: ignore[reportUnknownVariableType]
    return "".join([*lines, *(trace_of(each) for each in inner)])  # pyright: ignore[reportUnknownArgumentType]
