"""RemoteTools and MCP transports of Agent Spec documents as plain values, without their credentials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import parse_qsl, urlsplit

from pydantic import JsonValue

from retinue.agents.tools.tool_result import result_text
from retinue.broker.settings import load_settings
from retinue.contract import AgentSpecError, canonical_json
from retinue.contract.credential_names import credential_names

from .placeholders import placeholders
from .remote_spec import METHODS, McpServer, RemoteSpec, split_url
from .retry import retry_spec
from .secrets import SecretOwner, is_reference, keep_embedded

if TYPE_CHECKING:
    from pyagentspec.mcp.clienttransport import ClientTransport, RemoteTransport, StdioTransport
    from pyagentspec.tools.remotetool import RemoteTool

_TRANSPORTS: Final = {
    "SSETransport": ("sse", False),
    "SSEmTLSTransport": ("sse", True),
    "StreamableHTTPTransport": ("streamable_http", False),
    "StreamableHTTPmTLSTransport": ("streamable_http", True),
}


def remote_spec(tool: RemoteTool) -> RemoteSpec:
    """The request of a RemoteTool.

    Raises:
        AgentSpecError: it cannot be sent as it stands; names the tool and the mend.
    """
    what = f"RemoteTool {tool.name!r}"
    mend = f'set [remote_tools.tools."{tool.name}"] headers in retinue.toml'
    method = tool.http_method.strip().upper()
    if not placeholders(method) and method not in METHODS:
        raise AgentSpecError(
            f"{what} has the method {method!r:.40}",
            field="http_method",
            mend=f"use {', '.join(sorted(METHODS))}",
        )
    _check_url(tool.url, what, setting=f'[remote_tools.tools."{tool.name}"] url')
    if tool.url_allow_list is None and placeholders(split_url(tool.url)[0]):
        raise AgentSpecError(
            f"{what} lets an argument choose the host of its URL",
            field="url",
            mend="give it a url_allow_list, or a URL with a fixed host",
        )
    headers = _headers(tool.headers, tool.sensitive_headers, "remote", tool.name, what=what, mend=mend)
    query = cast("dict[str, JsonValue]", dict(tool.query_params))
    telling = credential_names(query)
    if telling:
        raise AgentSpecError(
            f"{what} carries a credential in query_params ({', '.join(telling)})",
            field="query_params",
            mend=f'take it out and set [remote_tools.tools."{tool.name}"] url, with it, in retinue.toml',
        )
    allow_list = None if tool.url_allow_list is None else tuple(tool.url_allow_list)
    return RemoteSpec(
        name=tool.name,
        method=tool.http_method.strip() if placeholders(method) else method,
        url=tool.url,
        data=_data(tool.data, what),
        query=query,
        headers=headers,
        needs_headers=is_reference(tool.sensitive_headers),
        allow_list=allow_list,
        retry=retry_spec(tool.retry_policy),
    )


def mcp_server(transport: ClientTransport, *, what: str) -> McpServer:
    """How the server of an MCP transport is reached.

    Args:
        what: the tool or toolbox that it belongs to, for messages.

    Raises:
        AgentSpecError: a kind that Retinue does not take, or stdio where the operator does not allow it.
    """
    kind = type(transport).__name__
    if kind == "StdioTransport":
        return _stdio(cast("StdioTransport", transport), what)
    known = _TRANSPORTS.get(kind)
    if known is None:
        raise AgentSpecError(
            f"{what} has a {kind} {transport.name!r}, which is not supported",
            field="client_transport",
            mend=f"use {', '.join(_TRANSPORTS)}",
        )
    remote = cast("RemoteTransport", transport)
    section = f'[mcp.servers."{transport.name}"]'
    if remote.auth is not None:
        raise AgentSpecError(
            f"{what} asks for {type(remote.auth).__name__} {remote.auth.name!r}, which is not supported",
            field="auth",
            mend=f"take it out and set {section} headers in retinue.toml",
        )
    style, mutual_tls = known
    if mutual_tls:
        _refuse_files(transport, what, section)
    _check_url(remote.url, what, setting=f"{section} url")
    mend = f"set {section} headers in retinue.toml"
    given = remote.headers or {}
    return McpServer(
        name=transport.name,
        transport="sse" if style == "sse" else "streamable_http",
        url=remote.url,
        headers=_headers(given, remote.sensitive_headers, "mcp", transport.name, what=what, mend=mend),
        needs_headers=is_reference(remote.sensitive_headers),
        mutual_tls=mutual_tls,
        read_timeout_s=transport.session_parameters.read_timeout_seconds,
        retry=retry_spec(remote.retry_policy),
    )


def _stdio(transport: StdioTransport, what: str) -> McpServer:
    if not load_settings().mcp.allow_stdio:
        raise AgentSpecError(
            f"{what} would start {transport.command!r:.80} as a program on the worker (StdioTransport)",
            field="client_transport",
            mend="serve it over streamable HTTP, or set [mcp] allow_stdio = true in retinue.toml",
        )
    env = dict(transport.env or {})
    telling = credential_names(env)
    if telling:
        secrets = {name: env.pop(name) for name in telling}
        mend = "set the variables in the worker's own environment"
        keep_embedded("mcp", transport.name, secrets, what=what, mend=mend)
    return McpServer(
        name=transport.name,
        transport="stdio",
        command=(transport.command, *transport.args),
        env=env,
        cwd=transport.cwd,
        read_timeout_s=transport.session_parameters.read_timeout_seconds,
    )


def _headers(
    plain: Mapping[str, object], sensitive: object, owner: SecretOwner, name: str, *, what: str, mend: str
) -> dict[str, str]:
    """The headers that may be seen; the others go into this process's memory, if they may."""
    given = {str(key): result_text(value) for key, value in plain.items()}
    secrets: dict[str, object] = {key: given.pop(key) for key in credential_names(given)}
    if isinstance(sensitive, Mapping) and not is_reference(sensitive):
        values = cast("Mapping[str, object]", sensitive)
        secrets.update({str(key): result_text(value) for key, value in values.items()})
    if secrets:
        keep_embedded(owner, name, secrets, what=what, mend=f"take it out of the document and {mend}")
    return given


def _refuse_files(transport: ClientTransport, what: str, section: str) -> None:
    names = [
        name for name in ("key_file", "cert_file", "ca_file") if not is_reference(getattr(transport, name))
    ]
    if names:
        raise AgentSpecError(
            f"{what} carries the sensitive field {', '.join(names)}",
            field="client_transport",
            mend=f"take it out of the document and set {section} {', '.join(names)} in retinue.toml",
        )


def _check_url(url: str, what: str, *, setting: str) -> None:
    """Refuse credentials in a URL; whether it can be reached shows when it is called."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return  # an unfilled template; the settings may still replace it
    telling = credential_names(dict(parse_qsl(parts.query)))
    if "@" in parts.netloc or telling:
        raise AgentSpecError(
            f"the URL of {what} carries a credential",
            field="url",
            mend=f"take it out of the document and set {setting}, with it, in retinue.toml",
        )


def _data(data: object, what: str) -> JsonValue:
    if isinstance(data, bytes):
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise AgentSpecError(
                f"{what} has data that is no text", field="data", mend="give text or JSON"
            ) from None
    try:
        canonical_json(data)
    except (TypeError, ValueError, RecursionError):
        raise AgentSpecError(
            f"{what} has data that is no JSON", field="data", mend="give text or JSON"
        ) from None
    return cast("JsonValue", data) or None
