"""Where a tool of an Agent Spec document is called: a URL, or an MCP server. Plain values, pinned with a run.

No credential stands here: headers that carry one are named in the settings and read by the worker.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

ToolKind = Literal["server", "client", "remote", "mcp"]
"""Who answers a tool's calls: a function of the worker's, the caller, a URL, an MCP server."""

METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
"""The HTTP methods that a RemoteTool may use."""

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Those that change nothing at the server (RFC 9110, 9.2.1)."""

Jitter = Literal["none", "full", "equal", "full_and_equal_for_throttle", "decorrelated"]
"""How the waits between attempts are spread; as Agent Spec's RetryPolicy defines them, None as ``none``."""


_HEAD: Final = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*://(?:\{\{\s*\w+\s*\}\}|[^/?#])*)(.*)", re.DOTALL)


def split_url(template: str) -> tuple[str, str]:
    """Scheme and host of a URL with placeholders, then the rest; all is the former if there is no scheme.

    >>> split_url("https://{{ region }}.example.com/orders/{{id}}")
    ('https://{{ region }}.example.com', '/orders/{{id}}')
    """
    match = _HEAD.fullmatch(template)
    return (match[1], match[2]) if match else (template, "")


class _Plain(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RetrySpec(_Plain):
    """Agent Spec's RetryPolicy: when a failed request is sent again.

    Args:
        max_retries: requests after the first one. 0 = none.
        request_timeout_s: limit of one attempt, in seconds. None = the settings'.
        initial_delay_s: base of the waits, in seconds.
        max_delay_s: longest wait, in seconds.
        backoff_factor: by which a wait grows with each attempt.
        jitter: how it is spread.
        any_5xx: every 5xx status but 501 is tried again.
        statuses: further statuses that are, each with the error codes it is limited to; none = any code.
    """

    max_retries: int = Field(default=2, ge=0)
    request_timeout_s: float | None = Field(default=None, gt=0)
    initial_delay_s: float = Field(default=1.0, ge=0)
    max_delay_s: float = Field(default=8.0, ge=0)
    backoff_factor: float = Field(default=2.0, gt=0)
    jitter: Jitter = "full_and_equal_for_throttle"
    any_5xx: bool = True
    statuses: dict[str, tuple[str, ...]] = Field(default_factory=lambda: {"409": (), "429": ()})


class RemoteSpec(_Plain):
    """The HTTP request of a RemoteTool; texts may hold ``{{ argument }}`` placeholders.

    Args:
        name: the tool's; ``[remote_tools.tools.<name>]`` in the settings replaces the URL and adds headers.
        method: HTTP method.
        url: absolute URL.
        data: the body: a text is sent as it is, anything else as JSON. Empty = no body.
        query: added to the URL's query.
        headers: sent with the request.
        needs_headers: the document refers to headers that hold credentials; the settings must give them.
        allow_list: URLs that the filled-in URL must begin with. None = host and scheme must not depend on
            an argument.
        retry: None = never sent again.
        by_value: it came with a launch: no credential goes to a URL that it names itself.
    """

    name: str
    method: str
    url: str
    data: JsonValue = None
    query: dict[str, JsonValue] = Field(default_factory=dict)
    headers: dict[str, str] = Field(default_factory=dict)
    needs_headers: bool = False
    allow_list: tuple[str, ...] | None = None
    retry: RetrySpec | None = None
    by_value: bool = False


class McpServer(_Plain):
    """How an MCP server is reached.

    Args:
        name: the transport's; ``[mcp.servers.<name>]`` in the settings replaces the URL and adds headers.
        transport: which of the protocol's transports.
        url: of a remote server. None for stdio.
        headers: sent with each request.
        needs_headers: the document refers to headers that hold credentials; the settings must give them.
        mutual_tls: the client shows a certificate, whose files the settings must name.
        command: of a stdio server: the program and its arguments.
        env: its further environment.
        cwd: its working directory. None = the worker's.
        read_timeout_s: longest wait for an answer, in seconds.
        retry: of the transport's requests. None = never sent again.
        by_value: it came with a launch: no program is started for it, and no credential goes to a URL that
            it names itself.
    """

    name: str
    transport: Literal["streamable_http", "sse", "stdio"]
    url: str | None = None
    headers: dict[str, str] = Field(default_factory=dict)
    needs_headers: bool = False
    mutual_tls: bool = False
    command: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    cwd: str | None = None
    read_timeout_s: float = Field(default=60.0, gt=0)
    retry: RetrySpec | None = None
    by_value: bool = False


class McpWish(_Plain):
    """One tool that a document expects of an MCP server.

    Args:
        name: as the server calls it.
        description: in place of the server's. None = the server's.
        inputs: JSON schemas of the inputs that the document names; the server's types must agree, their
            descriptions are replaced.
        requires_confirmation: a call waits until a human approves it.
    """

    name: str
    description: str | None = None
    inputs: dict[str, dict[str, JsonValue]] = Field(default_factory=dict)
    requires_confirmation: bool = False


class McpSpec(_Plain):
    """Tools of an MCP server: as a document asks for them, or one of them once the server has listed it.

    Args:
        server: where.
        wishes: the tools asked for. None = all that the server has.
        is_toolbox: its name is a toolbox's, not a tool's.
        tool: the one tool, as the server calls it. None = the server has not been asked yet.
        retry: of listing and calls as a whole. None = never tried again.
    """

    server: McpServer
    wishes: tuple[McpWish, ...] | None = None
    is_toolbox: bool = False
    tool: str | None = None
    retry: RetrySpec | None = None
