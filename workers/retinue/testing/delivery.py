"""Sends a selected reply over HTTP, with the fault that strikes it."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from aiohttp import web

from retinue.testing import wire_chat, wire_responses
from retinue.testing.book import Selection
from retinue.testing.faults import (
    CutStream,
    DropConnection,
    EndlessStream,
    ErrorReply,
    Fault,
    SlowStart,
    SlowStream,
    StreamError,
    TruncatedBody,
    WrongJson,
)
from retinue.testing.record import RecordedRequest
from retinue.testing.reply import ReplyFacts, reply_facts
from retinue.testing.request import Api, ScriptedRequest
from retinue.testing.scripts import Turn

_ENDLESS_TEXT = "on and on "
_NO_JSON = b'{"id": "broken", "choices": [{'
_NO_JSON_FRAME = b"data: " + _NO_JSON + b"\n\n"


@dataclass(slots=True)
class Delivery:
    """One reply on its way to one client."""

    http: web.Request
    request: ScriptedRequest
    recorded: RecordedRequest
    turn: Turn
    facts: ReplyFacts
    fault: Fault | None
    latency_s: float

    @classmethod
    def of(
        cls,
        http: web.Request,
        request: ScriptedRequest,
        recorded: RecordedRequest,
        selection: Selection,
        latency_s: float,
    ) -> "Delivery":
        """Prepare the delivery of a selection; `latency_s` is used by turns that set no pace."""
        turn = selection.reply
        if isinstance(selection.fault, SlowStream):
            turn = replace(turn, chunk_interval_s=selection.fault.interval_s)
        facts = reply_facts(selection.script, turn, request)
        return cls(http, request, recorded, turn, facts, selection.fault, latency_s)

    async def send(self) -> web.StreamResponse:
        """Send the reply; returns when its last byte is written or its connection is closed."""
        await self._think()
        match self.fault:
            case ErrorReply() as error:
                self.recorded.status = error.status
                return error_response(error)
            case DropConnection():
                return self._close(web.StreamResponse())
            case _:
                return await (self._stream() if self.request.stream else self._whole())

    async def _think(self) -> None:
        delay_s = self.latency_s if self.turn.first_byte_after_s is None else self.turn.first_byte_after_s
        if isinstance(self.fault, SlowStart):
            delay_s = self.fault.seconds
        if delay_s > 0:
            await asyncio.sleep(delay_s)

    async def _whole(self) -> web.StreamResponse:
        if isinstance(self.fault, EndlessStream):
            await asyncio.Event().wait()
        if isinstance(self.fault, StreamError):
            self.recorded.status = 500
            return error_response(ErrorReply(500, self.fault.code, self.fault.message, "server_error"))
        self.recorded.status = 200
        body = _NO_JSON if isinstance(self.fault, WrongJson) else _json(self._body())
        if not isinstance(self.fault, TruncatedBody | CutStream):
            return web.Response(body=body, content_type="application/json")
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.content_length = len(body)
        await response.prepare(self.http)
        await response.write(body[: len(body) // 2])
        return self._close(response)

    async def _stream(self) -> web.StreamResponse:
        headers = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
        response = web.StreamResponse(headers=headers)
        response.enable_chunked_encoding()
        self.recorded.status = 200
        await response.prepare(self.http)
        if isinstance(self.fault, EndlessStream):
            await self._never_end(response, self.fault.interval_s)
        frames = self._frames()
        half = len(frames) // 2
        match self.fault:
            case CutStream(after_events=after, clean=clean):
                await self._write(response, frames[: half if after is None else after])
                return response if clean else self._close(response)
            case TruncatedBody():
                await self._write(response, frames[:half])
                return self._close(response)
            case WrongJson():
                await self._write(response, [*frames[:half], _NO_JSON_FRAME, *frames[half:]])
            case StreamError() as error:
                await self._write(response, [*frames[:half], self._error_frame(error, half)])
            case _:
                await self._write(response, frames)
        return response

    async def _write(self, response: web.StreamResponse, frames: list[bytes]) -> None:
        if self.turn.chunk_interval_s <= 0:
            await response.write(b"".join(frames))
            return
        for number, frame in enumerate(frames):
            if number:
                await asyncio.sleep(self.turn.chunk_interval_s)
            await response.write(frame)

    async def _never_end(self, response: web.StreamResponse, interval_s: float) -> None:
        """Open the stream as any text would, then send the first delta for ever."""
        self.turn = Turn(text=_ENDLESS_TEXT)
        frames = self._frames()
        first_delta = next(number for number, frame in enumerate(frames) if _ENDLESS_TEXT.encode() in frame)
        await response.write(b"".join(frames[:first_delta]))
        while True:
            await response.write(frames[first_delta])
            await asyncio.sleep(interval_s)

    def _body(self) -> Mapping[str, Any]:
        encode = wire_chat.completion if self.request.api is Api.CHAT_COMPLETIONS else wire_responses.response
        return encode(self.turn, self.request, self.facts)

    def _frames(self) -> list[bytes]:
        if self.request.api is Api.CHAT_COMPLETIONS:
            chunks = wire_chat.chunks(self.turn, self.request, self.facts)
            return [*(_frame(chunk, named=False) for chunk in chunks), b"data: [DONE]\n\n"]
        events = wire_responses.events(self.turn, self.request, self.facts)
        return [_frame(event, named=True) for event in events]

    def _error_frame(self, error: StreamError, number: int) -> bytes:
        if self.request.api is Api.CHAT_COMPLETIONS:
            return _frame(ErrorReply(500, error.code, error.message, "server_error").body(), named=False)
        event = wire_responses.error_event(error, self.request, self.facts)
        return _frame(event | {"sequence_number": number}, named=True)

    def _close(self, response: web.StreamResponse) -> web.StreamResponse:
        """Close the connection after what was written; aiohttp then gives up on the response."""
        if self.http.transport is not None:
            self.http.transport.close()
        return response


def error_response(error: ErrorReply) -> web.Response:
    """The HTTP response of an error."""
    return web.Response(
        status=error.status,
        body=_json(error.body()),
        headers=dict(error.headers),
        content_type="application/json",
    )


def _frame(event: Mapping[str, Any], *, named: bool) -> bytes:
    name = f"event: {event['type']}\n".encode() if named else b""
    return name + b"data: " + _json(event) + b"\n\n"


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(errors="replace")
