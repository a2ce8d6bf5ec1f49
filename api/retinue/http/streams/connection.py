"""The connection under an answer: how a stream ends one whose client takes nothing.

ASGI has no word for it: an answer that is left unfinished closes the connection only once the client has
taken what was written.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, Final

from starlette.types import Scope

from retinue.http.protocol import PatientProtocol

_EXTENSION: Final = "retinue.abort"
_LATER_S: Final = 30.0
_USER_TIMEOUT: Final = getattr(socket, "TCP_USER_TIMEOUT", None)  # Linux alone has it


class StreamProtocol(PatientProtocol):
    """HTTP on one connection; each request can have that ended at once."""

    def on_message_begin(self) -> None:
        """Names the way out in the request's scope."""
        super().on_message_begin()
        scope: dict[str, Any] = self.scope  # pyright: ignore[reportAssignmentType]
        scope["extensions"] = {**(scope.get("extensions") or {}), _EXTENSION: {"abort": self._abort}}

    def _abort(self) -> None:
        self.transport.abort()


def abort(scope: Scope) -> None:
    """Ends a request's connection, whatever is still to be sent; where the server knows no way, nothing."""
    extensions: dict[str, dict[str, Callable[[], None]]] = scope.get("extensions") or {}
    way = extensions.get(_EXTENSION, {}).get("abort")
    if way is not None:
        way()


def give_up_on_silence(listener: socket.socket, seconds: float) -> None:
    """Has the connections of a listening socket end when the other side acknowledges nothing for so long.

    A host that lost its power says no word, and a stream writes to it once in a while only. Some time is
    added, so that a client which takes nothing is dropped by its stream, which tells of it.
    """
    if _USER_TIMEOUT is not None and listener.family in (socket.AF_INET, socket.AF_INET6):
        listener.setsockopt(socket.IPPROTO_TCP, _USER_TIMEOUT, round((seconds + _LATER_S) * 1000))
