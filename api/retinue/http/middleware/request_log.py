"""An id and a log line for every request: never with its query, headers or body, which may hold secrets."""

from __future__ import annotations

import logging
import re
import time
import uuid
from typing import Any, Final
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_log = logging.getLogger("retinue.http")

REQUEST_ID_HEADER: Final = "x-request-id"
_WELL_FORMED: Final = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_LONGEST_PATH_CHARS: Final = 200
_PROBES: Final = frozenset({"/healthz", "/readyz"})
"""Asked for every few seconds, by machines that note themselves what went wrong."""


class RequestLog:
    """Gives each request an id, which its answer repeats, and logs one line at its end."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = request_id_from(Headers(scope=scope).get(REQUEST_ID_HEADER))
        scope.setdefault("state", {})["request_id"] = request_id
        started = time.monotonic()
        sent: dict[str, int] = {}

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent["status"] = message["status"]
                MutableHeaders(scope=message)[REQUEST_ID_HEADER] = request_id
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        finally:
            status = sent.get("status")
            is_news = scope["path"] not in _PROBES or status != 200
            _log.log(
                logging.INFO if is_news else logging.DEBUG,
                "http.request method=%s path=%s status=%s ms=%.0f key=%s request=%s",
                scope["method"],
                quote(scope["path"])[:_LONGEST_PATH_CHARS],
                status or "-",
                (time.monotonic() - started) * 1_000,
                _key_of(scope["state"]),
                request_id,
            )


def request_id_from(given: str | None) -> str:
    """The id that came with a request if it is well-formed, else a new one."""
    return given if given is not None and _WELL_FORMED.fullmatch(given) else uuid.uuid4().hex


def _key_of(state: dict[str, Any]) -> str:
    caller = state.get("caller")
    # A token's subject is whatever its issuer wrote.
    return "-" if caller is None else quote(caller.key_id)
