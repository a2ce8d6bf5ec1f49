"""One connection to an MCP server, for one call or one listing; the official package speaks the protocol.

The package comes with the extra `mcp` and is imported at the first use.
"""

from __future__ import annotations

import importlib.util
import os
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx2
from pydantic import SecretStr

from retinue.agents.agentspec.remote_spec import McpServer
from retinue.agents.agentspec.secrets import kept_secrets
from retinue.broker.outbound.guarded_http import GuardedTransport, http_client
from retinue.broker.outbound.target_guard import TargetGuard
from retinue.broker.settings import Settings
from retinue.broker.settings.tools import McpServerOverride
from retinue.contract import SettingsError
from retinue.worker.network.credentials import mcp_headers
from retinue.worker.network.retrying_http import RetryingTransport

if TYPE_CHECKING:
    from mcp.client import Client

_CONNECT_S = 30.0


@asynccontextmanager
async def connected(server: McpServer, settings: Settings, guard: TargetGuard) -> AsyncGenerator[Client]:
    """A client that has shaken hands with the server; closed at the end.

    Raises:
        SettingsError: The package, a credential or a leave is missing.
        TargetRefusedError: The server is where nothing may be reached.
        Exception: Whatever keeps the package from connecting, also as a group.
    """
    if importlib.util.find_spec("mcp") is None:
        raise SettingsError("MCP tools need mcp, which is not installed", mend="pip install 'retinue[mcp]'")
    from mcp.client import Client

    async with AsyncExitStack() as stack:
        transport = _stdio(server, settings, stack)
        if transport is None:
            transport = await _remote(server, settings, guard, stack)
        client = Client(transport, read_timeout_seconds=server.read_timeout_s, cache=None)
        yield await stack.enter_async_context(client)


def _stdio(server: McpServer, settings: Settings, stack: AsyncExitStack) -> Any:
    """The transport to a program that is started; None = the server is reached by its URL."""
    if server.transport != "stdio":
        return None
    if not settings.mcp.allow_stdio or server.by_value:
        raise SettingsError(
            f"MCP server {server.name!r} would be started as a program on this worker",
            setting="mcp.allow_stdio",
            mend="serve it over streamable HTTP, or set it to true for documents of the worker's own modules",
        )
    from mcp.client.stdio import StdioServerParameters, stdio_client

    secrets = {name: value.get_secret_value() for name, value in kept_secrets("mcp", server.name).items()}
    command, *arguments = server.command
    parameters = StdioServerParameters(
        command=command, args=arguments, env={**server.env, **secrets}, cwd=server.cwd
    )
    # What it writes there may quote what it was asked.
    nowhere = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - closed by the stack
    return stdio_client(parameters, errlog=nowhere)


async def _remote(server: McpServer, settings: Settings, guard: TargetGuard, stack: AsyncExitStack) -> Any:
    override = settings.mcp.servers.get(server.name, McpServerOverride())
    url = override.url or server.url or ""
    await _check(url, server, guard)
    sent = {**server.headers, **_revealed(mcp_headers(settings, server))}
    trust = _trust(server, override)
    inner: httpx2.AsyncBaseTransport = GuardedTransport(
        guard, trust, max_bytes=settings.mcp.max_response_bytes
    )
    if server.retry is not None:
        inner = RetryingTransport(inner, server.retry)

    def make(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        del timeout, auth  # ours, and none
        return http_client(
            inner,
            timeout_s=_CONNECT_S,
            read_timeout_s=server.read_timeout_s,
            headers={**sent, **(headers or {})},
        )

    if server.transport == "sse":
        from mcp.client.sse import sse_client

        return sse_client(url, httpx_client_factory=make)
    from mcp.client.streamable_http import streamable_http_client

    return streamable_http_client(url, http_client=await stack.enter_async_context(make()))


async def _check(url: str, server: McpServer, guard: TargetGuard) -> None:
    """Refuse the host before the package tries it: its errors would not say why."""
    try:
        place = httpx2.URL(url)
    except (httpx2.InvalidURL, ValueError):
        place = httpx2.URL("")
    if place.scheme not in ("http", "https") or not place.host or place.userinfo:
        raise SettingsError(
            f"the URL of MCP server {server.name!r} is none",
            setting=f'mcp.servers."{server.name}".url',
            mend="set it to where the server is",
        )
    await guard.addresses(
        place.raw_host.decode("ascii"), place.port or (443 if place.scheme == "https" else 80)
    )


def _trust(server: McpServer, override: McpServerOverride) -> ssl.SSLContext | None:
    """TLS with the operator's own files; None = as for everybody else."""
    if server.mutual_tls and override.cert_file is None:
        raise SettingsError(
            f"MCP server {server.name!r} asks for a client certificate",
            setting=f'mcp.servers."{server.name}".cert_file',
            mend="set it, and key_file and ca_file as needed",
        )
    if override.cert_file is None and override.ca_file is None:
        return None
    context = ssl.create_default_context(cafile=override.ca_file)
    if override.cert_file is not None:
        context.load_cert_chain(override.cert_file, override.key_file)
    return context


def _revealed(secrets: Mapping[str, SecretStr]) -> dict[str, str]:
    return {name: value.get_secret_value() for name, value in secrets.items()}
