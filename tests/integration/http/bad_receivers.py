"""Receivers of webhooks that nobody wishes for: each takes connections, and then does its worst."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from enum import Enum

_BETWEEN_S = 0.05
_OK = b"HTTP/1.1 200 OK\r\n"


class Manner(Enum):
    """How a receiver answers."""

    SILENCE = "silence"  # it takes the request, and never answers
    TRICKLE = "trickle"  # a byte of the head at a time
    HUGE_HEAD = "huge_head"  # header after header
    INTERIM = "interim"  # 100 Continue, again and again
    NO_HTTP = "no_http"
    CUT = "cut"  # it closes without an answer
    ENDLESS_BODY = "endless_body"


async def _silence(_writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def _trickle(writer: asyncio.StreamWriter) -> None:
    writer.write(_OK)
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(_BETWEEN_S)


async def _huge_head(writer: asyncio.StreamWriter) -> None:
    writer.write(_OK)
    while True:
        writer.write(b"x-more: " + b"a" * 1000 + b"\r\n")
        await writer.drain()


async def _interim(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(_BETWEEN_S)


async def _no_http(writer: asyncio.StreamWriter) -> None:
    writer.write(b"220 mail.example ESMTP\r\n")
    await writer.drain()


async def _cut(_writer: asyncio.StreamWriter) -> None:
    return


async def _endless_body(writer: asyncio.StreamWriter) -> None:
    writer.write(_OK + b"content-type: text/plain\r\n\r\n")
    while True:
        writer.write(b"a" * 65_536)
        await writer.drain()


_DO: dict[Manner, Callable[[asyncio.StreamWriter], Awaitable[None]]] = {
    Manner.SILENCE: _silence,
    Manner.TRICKLE: _trickle,
    Manner.HUGE_HEAD: _huge_head,
    Manner.INTERIM: _interim,
    Manner.NO_HTTP: _no_http,
    Manner.CUT: _cut,
    Manner.ENDLESS_BODY: _endless_body,
}


@asynccontextmanager
async def bad_receiver(manner: Manner) -> AsyncGenerator[str]:
    """The URL of one, on 127.0.0.1."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await reader.readuntil(b"\r\n\r\n")
            await _DO[manner](writer)
        writer.close()

    tasks: set[asyncio.Task[None] | None] = set()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hooks"
    finally:
        server.close()
        for task in tasks:
            if task is not None:
                task.cancel()
        await asyncio.gather(*(task for task in tasks if task), return_exceptions=True)
