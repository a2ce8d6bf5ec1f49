"""A stream as an HTTP answer: sent as fast as the client takes it, dropped when it takes nothing."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractContextManager
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from retinue.http.streams.connection import abort
from retinue.http.streams.stream import RunStream

_log = logging.getLogger("retinue.http")
_HEADERS: Final = {
    "Cache-Control": "no-store",
    # Proxies that collect an answer before they pass it on, nginx above all.
    "X-Accel-Buffering": "no",
}
_ABORTED_S: Final = 1.0


class EventStreamResponse(Response):
    """Sends a stream until its last event, or until its client leaves, stands still or may read no more.

    Args:
        stream: What is sent; entered for as long as the client is there.
        access: Gives what is set once the client may read no more; entered likewise.
        send_timeout_s: How long a client may take nothing of what it is sent, in seconds.
    """

    media_type = "text/event-stream"

    def __init__(
        self, stream: RunStream, *, access: AbstractContextManager[asyncio.Event], send_timeout_s: float
    ) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._stream = stream
        self._access = access
        self._send_timeout_s = send_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._stream, self._access as over:
            sending = asyncio.ensure_future(self._send(send))
            leaving = asyncio.ensure_future(_left(receive))
            losing = asyncio.ensure_future(over.wait())
            try:
                await asyncio.wait({sending, leaving, losing}, return_when=asyncio.FIRST_COMPLETED)
                if losing.done() and not sending.done():
                    is_sent = await self._cut(sending, send)
                else:
                    is_sent = not sending.done() or sending.result()
                if not is_sent:
                    _log.warning("streams.dropped run=%s reason=slow", self._stream.run.key.run_id)
                    abort(scope)
                    await asyncio.wait({leaving}, timeout=_ABORTED_S)
            finally:
                for task in (sending, leaving, losing):
                    task.cancel()
                await asyncio.gather(sending, leaving, losing, return_exceptions=True)

    async def _send(self, send: Send) -> bool:
        """Sends all of it; False = the client took nothing for too long."""
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await send(start)
        is_last = False
        while not is_last:
            chunk = await self._stream.next()
            is_last = chunk.is_last
            if not await self._send_part(send, chunk.content, is_last=is_last):
                return False
        return True

    async def _send_part(self, send: Send, content: bytes, *, is_last: bool) -> bool:
        """Sends one part of it; False = the client did not take it in time."""
        try:
            async with asyncio.timeout(self._send_timeout_s):
                await send({"type": "http.response.body", "body": content, "more_body": not is_last})
        except TimeoutError:
            return False
        return True

    async def _cut(self, sending: asyncio.Future[bool], send: Send) -> bool:
        """Ends it behind what was sent: who connects again shows whether it may read."""
        _log.info("streams.ended run=%s reason=access", self._stream.run.key.run_id)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        return await self._send_part(send, b"", is_last=True)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
