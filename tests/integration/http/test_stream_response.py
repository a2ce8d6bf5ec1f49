"""How an answer of events ends: by its last event, by the client's leaving, or by its standing still."""

from __future__ import annotations

import asyncio
import logging
from contextlib import nullcontext

import pytest
from starlette.types import Message
from tests.integration.http.stream_stage import DEADLINE_S, StreamStage, until
from tests.unit.http.sse import Reader

from retinue.http.streams.opening import open_stream
from retinue.http.streams.response import EventStreamResponse


class Connection:
    """The server's side of a request.

    Attributes:
        is_aborted: The application ended the connection.
        content: What was taken so far.
        ended: The answer is whole.
    """

    def __init__(self, *, takes: int | None = None) -> None:
        self.is_aborted = False
        self.content = b""
        self.ended = False
        self.left = asyncio.Event()
        self._takes = takes
        self.scope = {"type": "http", "extensions": {"retinue.abort": {"abort": self._abort}}}

    async def receive(self) -> Message:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] != "http.response.body":
            return
        if self._takes == 0:
            await asyncio.Event().wait()
        self.content += message["body"]
        self.ended = not message["more_body"]
        if self._takes is not None:
            self._takes -= 1

    def _abort(self) -> None:
        self.is_aborted = True
        self.left.set()


async def _answer(
    stage: StreamStage, send_timeout_s: float = 30.0, over: asyncio.Event | None = None
) -> EventStreamResponse:
    run = await stage.launch()
    stream = await open_stream(stage.service, stage.key(run), after=0, whole_tree=True, takes_news=False)
    assert stream is not None
    access = nullcontext(over or asyncio.Event())
    return EventStreamResponse(stream, access=access, send_timeout_s=send_timeout_s)


async def test_a_client_that_takes_nothing_is_dropped_with_its_connection(
    stage: StreamStage, caplog: pytest.LogCaptureFixture
) -> None:
    answer, connection = await _answer(stage, 0.1), Connection(takes=2)
    with caplog.at_level(logging.WARNING, "retinue.http"):
        async with asyncio.timeout(DEADLINE_S):
            await answer(connection.scope, connection.receive, connection.send)
    assert connection.is_aborted
    assert not connection.ended
    assert "streams.dropped" in caplog.text
    assert stage.hub.streams == stage.hub.watched == 0


async def test_a_client_that_leaves_ends_everything_at_once(stage: StreamStage) -> None:
    before = len(asyncio.all_tasks())
    answer, connection = await _answer(stage), Connection()
    call = asyncio.ensure_future(answer(connection.scope, connection.receive, connection.send))
    await until(lambda: b"run.created" in connection.content)
    assert stage.hub.streams == 1
    connection.left.set()
    async with asyncio.timeout(DEADLINE_S):
        await call
    assert stage.hub.streams == stage.hub.watched == 0
    # What is left is the hub's own.
    assert len(asyncio.all_tasks()) <= before + 1


async def test_a_server_without_a_way_to_end_a_connection_is_left_an_unfinished_answer(
    stage: StreamStage,
) -> None:
    answer, connection = await _answer(stage, 0.1), Connection(takes=1)
    async with asyncio.timeout(DEADLINE_S):
        await answer({"type": "http"}, connection.receive, connection.send)
    assert not connection.ended
    assert stage.hub.streams == 0


async def test_an_answer_that_is_cancelled_leaves_nothing_behind(stage: StreamStage) -> None:
    answer, connection = await _answer(stage), Connection()
    call = asyncio.ensure_future(answer(connection.scope, connection.receive, connection.send))
    await until(lambda: b"run.created" in connection.content)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert stage.hub.streams == stage.hub.watched == 0


async def test_what_is_sent_is_whole_events_and_ends_with_the_stream(stage: StreamStage) -> None:
    answer, connection = await _answer(stage), Connection()
    call = asyncio.ensure_future(answer(connection.scope, connection.receive, connection.send))
    await until(lambda: b"run.created" in connection.content)
    stage.service.stopping.set()
    async with asyncio.timeout(DEADLINE_S):
        await call
    assert connection.ended
    assert connection.content.endswith(b"\n\n")
    reader = Reader()
    reader.feed(connection.content)
    assert reader.kinds() == ["run.created"]


async def test_an_answer_ends_whole_once_its_caller_may_read_no_more(stage: StreamStage) -> None:
    over = asyncio.Event()
    answer, connection = await _answer(stage, over=over), Connection()
    call = asyncio.ensure_future(answer(connection.scope, connection.receive, connection.send))
    await until(lambda: b"run.created" in connection.content)
    over.set()
    async with asyncio.timeout(DEADLINE_S):
        await call
    assert connection.ended
    assert not connection.is_aborted
    assert connection.content.endswith(b"\n\n")
    assert stage.hub.streams == stage.hub.watched == 0


async def test_a_caller_who_may_read_no_more_and_takes_nothing_is_dropped(stage: StreamStage) -> None:
    over = asyncio.Event()
    answer, connection = await _answer(stage, 0.1, over), Connection(takes=0)
    over.set()
    async with asyncio.timeout(DEADLINE_S):
        await answer(connection.scope, connection.receive, connection.send)
    assert connection.is_aborted
    assert not connection.ended
