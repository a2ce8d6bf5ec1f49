"""HTTP servers for tools to call, on 127.0.0.1 and a free port, in the test's own loop."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Site:
    """A running server and what it was asked."""

    port: int
    asked: list[web.Request] = field(default_factory=list[web.Request])
    bodies: list[bytes] = field(default_factory=list[bytes])

    def url(self, path: str = "/", host: str = "127.0.0.1", scheme: str = "http") -> str:
        """Where it answers."""
        return f"{scheme}://{host}:{self.port}{path}"


@asynccontextmanager
async def site(handler: Handler, *, tls: ssl.SSLContext | None = None) -> AsyncGenerator[Site]:
    """Serve every request with the handler."""

    async def answer(request: web.Request) -> web.StreamResponse:
        found.asked.append(request)
        found.bodies.append(await request.read())
        return await handler(request)

    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)
    await runner.setup()
    listening = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await listening.start()
    assert listening._server is not None  # pyright: ignore[reportPrivateUsage] - aiohttp tells the port nowhere else
    found = Site(listening._server.sockets[0].getsockname()[1])  # pyright: ignore
    try:
        yield found
    finally:
        await runner.cleanup()
