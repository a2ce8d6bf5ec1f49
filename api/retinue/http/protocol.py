"""HTTP on one connection: uvicorn's protocol, which alone would wait for the head of a request for ever."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

P = TypeVar("P", bound="PatientProtocol")


class PatientProtocol(HttpToolsProtocol):
    """Closes a connection whose next request does not show its whole head in time.

    Between two requests uvicorn's own keep-alive limit holds.
    """

    head_timeout_s: float = 30.0
    _head_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """A caller is there, and is to say what it wants."""
        super().connection_made(transport)
        self._await_head()

    def on_message_begin(self) -> None:
        """The first bytes of a request."""
        super().on_message_begin()
        self._await_head()

    def on_headers_complete(self) -> None:
        """The head is there; `BodyGate` waits for the body."""
        self._forget_head()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """The caller has gone."""
        self._forget_head()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self._forget_head()
        self._head_due = self.loop.call_later(self.head_timeout_s, self.timeout_keep_alive_handler)

    def _forget_head(self) -> None:
        if self._head_due is not None:
            self._head_due.cancel()
            self._head_due = None


def patient(kind: type[P], head_timeout_s: float) -> type[P]:
    """The protocol with a limit of its own, in seconds: uvicorn takes a class and makes the instances."""
    return cast("type[P]", type(kind.__name__, (kind,), {"head_timeout_s": head_timeout_s}))
