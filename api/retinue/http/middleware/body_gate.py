"""Reads a request's body before anything else does, as far as it may go, and hands it on whole."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from retinue.broker.settings.http import HttpSettings
from retinue.http.middleware.json_check import check_json
from retinue.http.problems import Problem

_LINGER_S: Final = 2.0
_LINGER_BYTES: Final = 16_777_216


class BodyGate:
    """Lets bodies pass that are JSON, of a length, a nesting and a pace within the settings.

    Args:
        settings: The limits.
    """

    def __init__(self, app: ASGIApp, settings: HttpSettings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        if not _announces_body(headers):
            await self._app(scope, receive, send)
            return
        try:
            body = await self._read(headers, receive)
        except Problem as problem:
            # What still comes belongs to no request: the connection ends with this answer.
            problem.headers["Connection"] = "close"
            await refuse(problem, scope, receive, send)
            return
        if body is None:
            return
        if body:
            check_media_type(headers)
            check_json(body, self._settings.max_json_depth)
        await self._app(scope, _replay(body, receive), send)

    async def _read(self, headers: Headers, receive: Receive) -> bytes | None:
        """The body; None if the caller went away meanwhile."""
        longest, patience_s = self._settings.max_body_bytes, self._settings.request_timeout_seconds
        announced = headers.get("content-length", "")
        # Checked before a byte is read, and before a caller who asked first is told to go on.
        if announced.isdecimal() and int(announced) > longest:
            raise _too_large(longest)
        body = bytearray()
        try:
            async with asyncio.timeout(patience_s):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    body += message.get("body", b"")
                    if len(body) > longest:
                        raise _too_large(longest)
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            raise Problem(
                "REQUEST_TIMEOUT", 408, "the body did not arrive in time", limit=f"{patience_s:g} s"
            ) from None


async def refuse(problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
    """Answers at once, but listens on for a while.

    A connection that is closed while the caller still sends is reset, and the answer with it: most clients
    look for one only when they have sent everything.
    """

    async def send_lingering(message: Message) -> None:
        if message["type"] == "http.response.body":
            await send({**message, "more_body": True})
            await _drain(receive)
            message = {"type": "http.response.body"}
        await send(message)

    await problem.response(scope["state"]["request_id"])(scope, receive, send_lingering)


async def _drain(receive: Receive) -> None:
    left = _LINGER_BYTES
    try:
        async with asyncio.timeout(_LINGER_S):
            while left > 0:
                message = await receive()
                left -= len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return
    except TimeoutError:
        return


def check_media_type(headers: Headers) -> None:
    """Refuses a body that does not say that it is JSON.

    Raises:
        Problem: UNSUPPORTED_MEDIA_TYPE.
    """
    essence, _, parameters = headers.get("content-type", "").lower().partition(";")
    charset = parameters.partition("charset=")[2].strip().strip('"')
    plain = headers.get("content-encoding", "identity").lower() == "identity"
    if essence.strip() != "application/json" or charset not in ("", "utf-8") or not plain:
        raise Problem(
            "UNSUPPORTED_MEDIA_TYPE",
            415,
            "the body is not marked as JSON",
            field="Content-Type",
            limit="application/json in UTF-8, not compressed",
            mend="send the header Content-Type: application/json",
        )


def _announces_body(headers: Headers) -> bool:
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def _replay(body: bytes, receive: Receive) -> Receive:
    """Hands the body on, and then what else the server tells: that the caller went away."""
    is_told = False

    async def receive_again() -> Message:
        nonlocal is_told
        if is_told:
            return await receive()
        is_told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def _too_large(longest: int) -> Problem:
    return Problem("BODY_TOO_LARGE", 413, "the body is too long", limit=f"{longest} bytes")
