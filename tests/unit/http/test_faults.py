from __future__ import annotations

import asyncio
import logging

import pytest
from starlette.types import Receive, Scope, Send
from tests.unit.http.asgi import Answer, call, request_scope

from retinue.contract import ErrorCode, SubagentLifecycleError
from retinue.http.middleware.faults import Faults
from retinue.http.middleware.request_log import RequestLog


class Raising:
    """An application that raises, before or after its answer has begun."""

    def __init__(self, error: Exception, *, begins: bool = False) -> None:
        self._error = error
        self._begins = begins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._begins:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        raise self._error


async def answered(app: Raising) -> Answer:
    return await call(
        RequestLog(Faults(app, asyncio.Event())), request_scope(headers={"X-Request-Id": "r-1"})
    )


async def test_an_error_that_nobody_raised_on_purpose_tells_nothing(caplog: pytest.LogCaptureFixture) -> None:
    answer = await answered(Raising(KeyError("a prompt")))

    assert answer.status == 500
    assert answer.problem["code"] == "INTERNAL_ERROR"
    assert answer.problem["request_id"] == "r-1"
    assert "prompt" not in answer.body.decode()


async def test_its_kind_and_places_are_logged_but_not_its_text(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    group = ExceptionGroup("a prompt", [ValueError("another prompt")])

    await answered(Raising(group))

    [line] = caplog.messages
    assert line.startswith("http.fault request=r-1 error=ExceptionGroup\n")
    assert "error=ValueError" in line
    assert "test_faults.py" in line
    assert "prompt" not in caplog.text


async def test_a_refusal_is_answered_and_not_logged_as_a_fault(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    refusal = SubagentLifecycleError("is full", field="limits", code=ErrorCode.CAPACITY_REACHED)

    answer = await answered(Raising(refusal))

    assert (answer.status, answer.problem["code"]) == (429, "CAPACITY_REACHED")
    assert answer.headers["retry-after"]
    assert caplog.messages == []


async def test_an_answer_that_has_begun_breaks_off(caplog: pytest.LogCaptureFixture) -> None:
    answer = await answered(Raising(RuntimeError("a prompt"), begins=True))

    assert (answer.status, answer.body) == (200, b"")
    assert "error=RuntimeError" in caplog.text


async def stuck(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that never answers."""
    await asyncio.Event().wait()


async def test_a_request_that_the_end_of_the_process_cuts_off_is_told_so() -> None:
    stopping = asyncio.Event()
    request = asyncio.create_task(call(Faults(stuck, stopping), request_scope()))
    await asyncio.sleep(0)
    stopping.set()

    request.cancel()
    answer = await request

    assert (answer.status, answer.problem["code"]) == (503, "STOPPING")
    assert answer.headers["connection"] == "close"


async def test_any_other_cancel_goes_on() -> None:
    request = asyncio.create_task(call(Faults(stuck, asyncio.Event()), request_scope()))
    await asyncio.sleep(0)

    request.cancel()

    with pytest.raises(asyncio.CancelledError):
        await request
