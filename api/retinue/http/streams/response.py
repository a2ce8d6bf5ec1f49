"""A stream as an HTTP answer: sent as fast as the client takes it, dropped when it takes nothing."""

from __future__ import annotations

import asyncio
import logging
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
    """Sends a stream of events until its last one, the client's leaving or its standstill.

    Args:
        stream: What is sent; entered for as long as the client is there.
        send_timeout_s: How long a client may take nothing of what it is sent, in seconds.
    """

    media_type = "text/event-stream"

    def __init__(self, stream: RunStream, *, send_timeout_s: float) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._stream = stream
        self._send_timeout_s = send_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._stream:
            sending = asyncio.ensure_future(self._send(send))
            leaving = asyncio.ensure_future(_left(receive))
            try:
                await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
                if sending.done() and not sending.result():
                    _log.warning("streams.dropped run=%s reason=slow", self._stream.run.key.run_id)
                    abort(scope)
                    await asyncio.wait({leaving}, timeout=_ABORTED_S)
            finally:
                sending.cancel()
                leaving.cancel()
                await asyncio.gather(sending, leaving, return_exceptions=True)

    async def _send(self, send: Send) -> bool:
        """Sends all of it; False = the client took nothing for too long."""
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await send(start)
        is_last = False
        while not is_last:
            chunk = await self._stream.next()
            is_last = chunk.is_last
            body = {"type": "http.response.body", "body": chunk.content, "more_body": not is_last}
            try:
                async with asyncio.timeout(self._send_timeout_s):
                    await send(body)
            except TimeoutError:
                return False
        return True


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
