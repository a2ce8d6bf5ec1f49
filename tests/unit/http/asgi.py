"""One request to an ASGI application, without a server."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send


@dataclass
class Answer:
    """What an application sent."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def problem(self) -> dict[str, Any]:
        """The members of a refusal."""
        assert self.headers["content-type"] == "application/problem+json"
        return json.loads(self.body)


def request_scope(
    method: str = "POST", path: str = "/v1/runs", headers: Mapping[str, str] | None = None
) -> Scope:
    """A request as a server hands it on; the query must show up nowhere."""
    raw = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
    return {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": b"secret=query",
        "headers": raw,
        "state": {"request_id": "r-0"},
    }


def body_messages(*parts: bytes) -> list[Message]:
    """A body that arrives in parts."""
    more = [{"type": "http.request", "body": part, "more_body": True} for part in parts[:-1]]
    return [*more, {"type": "http.request", "body": parts[-1] if parts else b"", "more_body": False}]


async def call(
    app: ASGIApp, scope: Scope, messages: Sequence[Message] = ({"type": "http.request", "body": b""},)
) -> Answer:
    """What the application answers; after the messages the caller is gone."""
    answer, left = Answer(), list(messages)

    async def receive() -> Message:
        return left.pop(0) if left else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            answer.body += message.get("body", b"")

    await app(scope, receive, send)
    return answer


class Plain:
    """An application that remembers what it was given, and answers plainly."""

    def __init__(self, headers: Mapping[str, str] | None = None) -> None:
        self.bodies: list[bytes] = []
        self.after: Message | None = None
        self._headers = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        assert not message.get("more_body", False)
        self.bodies.append(message.get("body", b""))
        self.after = await receive()
        await send({"type": "http.response.start", "status": 200, "headers": list(self._headers)})
        await send({"type": "http.response.body", "body": b"done"})
