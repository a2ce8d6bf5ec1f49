"""An MCP server made with the official package: served by a thread, or run as a program over stdio."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

Transport = Literal["sse", "streamable_http"]


def payslips(*, extra: tuple[str, ...] = ()) -> MCPServer:
    """A server with a few tools.

    Args:
        extra: names of further tools, which take nothing and answer their name.
    """
    server = MCPServer("payslips")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def get_payslip(employee: str, month: int) -> str:
        """The payslip of an employee."""
        return f"{employee} got 4,200 in month {month}"

    @server.tool(name="Send by mail")
    def send_by_mail(employee: str) -> str:
        """Send a payslip."""
        raise ToolError(f"{employee} has no address")

    for name in extra:
        server.tool(name=name)(lambda name=name: str(name))
    return server


@dataclass
class McpSite:
    """A running server and the headers of what it was asked."""

    port: int
    transport: Transport
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}{'/sse' if self.transport == 'sse' else '/mcp'}"


@contextmanager
def mcp_site(transport: Transport, server: MCPServer | None = None) -> Generator[McpSite]:
    """Serve over HTTP from a thread, on 127.0.0.1 and a free port."""
    served = server or payslips()
    app: Any = served.sse_app() if transport == "sse" else served.streamable_http_app()
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(128)  # whoever comes early waits
    found = McpSite(listening.getsockname()[1], transport)

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            found.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})
        await app(scope, receive, send)

    config = uvicorn.Config(noting, log_level=logging.CRITICAL, timeout_graceful_shutdown=1)
    uvicorn_server = uvicorn.Server(config)
    thread = threading.Thread(target=uvicorn_server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        uvicorn_server.should_exit = True
        thread.join(30)
        listening.close()


if __name__ == "__main__":
    payslips().run("stdio")
