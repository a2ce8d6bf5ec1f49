"""A receiver of webhooks, as an application has one: it keeps what it is told, and answers as a test says."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
from base64 import b64decode, b64encode
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

_BETWEEN_S = 0.02


@dataclass(frozen=True)
class Received:
    """One request.

    Args:
        path: As it was asked for.
        headers: By name, in any case.
        body: Its bytes.
    """

    path: str
    headers: Message
    body: bytes

    @property
    def message_id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def event(self) -> dict[str, Any]:
        return json.loads(self.body)

    @property
    def run_id(self) -> str:
        return self.event["data"]["run_id"]

    def is_signed_with(self, secret: str) -> bool:
        """Whether one of its signatures was made with a secret, as the specification has it."""
        key = b64decode(secret.removeprefix("whsec_"))
        signed = f"{self.message_id}.{self.headers['webhook-timestamp']}.".encode() + self.body
        made = "v1," + b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        return any(hmac.compare_digest(made, each) for each in self.headers["webhook-signature"].split(" "))


class Receiver:
    """An HTTP server on a free port of 127.0.0.1; it answers 204 unless it is told otherwise."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self._answers: defaultdict[str, deque[tuple[int, dict[str, str]]]] = defaultdict(deque)
        self._before: dict[str, Callable[[], None]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Without a path."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, path: str, *statuses: int, **headers: str) -> None:
        """The next answers on a path."""
        self._answers[path].extend((status, headers) for status in statuses)

    def before_answer(self, path: str, do: Callable[[], None]) -> None:
        """Done once, when the next request on a path has come and is not answered yet."""
        self._before[path] = do

    def at(self, path: str) -> list[Received]:
        """What came on a path, in order."""
        return [each for each in self.received if each.path == path]

    def wait_for(self, path: str, count: int = 1, *, timeout_s: float = 60.0) -> list[Received]:
        """What came on a path, once it is so much."""
        deadline = time.monotonic() + timeout_s
        while len(self.at(path)) < count:
            assert time.monotonic() < deadline, f"{len(self.at(path))} of {count} within {timeout_s} s"
            time.sleep(_BETWEEN_S)
        return self.at(path)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.received.append(Received(self.path, self.headers, body))
                receiver._before.pop(self.path, lambda: None)()
                answers = receiver._answers[self.path]
                status, headers = answers.popleft() if answers else (204, {})
                try:
                    self.send_response(status)
                    for name, value in headers.items():
                        self.send_header(name.replace("_", "-"), value)
                    self.send_header("content-length", "0")
                    self.end_headers()
                except OSError:
                    pass  # whoever asked was killed

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler
