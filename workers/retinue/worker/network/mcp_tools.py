"""MCP tools at work: what a server offers, and calls of its tools."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar, cast

import httpx2
from pydantic import JsonValue

from retinue.agents.agentspec.remote_spec import McpServer, McpSpec, RetrySpec
from retinue.agents.tools.tool_result import result_text
from retinue.broker.outbound.target_guard import TargetGuard, TargetRefusedError
from retinue.broker.settings import Settings
from retinue.contract import RetinueError, SettingsError
from retinue.worker.network.credentials import mask, mcp_headers
from retinue.worker.network.mcp_session import connected
from retinue.worker.network.spec_retry import wait_s

if TYPE_CHECKING:
    from mcp.client import Client
    from mcp_types import CallToolResult

T = TypeVar("T")
_log = logging.getLogger("retinue.worker")
_TOOLS_MAX: Final = 512
_PAGES_MAX: Final = 128
_LISTING: Final = RetrySpec()
"""For listings that a document gives no policy: a run without its tools cannot begin."""

GoOn = Callable[[], Awaitable[bool]]
"""Asked before each retry; False = the run is to stop."""


class McpToolError(RetinueError):
    """A server that did not do what was asked; the text is the call's result, and may quote the server."""


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool as its server describes it."""

    name: str
    description: str
    parameters: dict[str, JsonValue] = field(repr=False)
    read_only: bool
    idempotent: bool


class McpTools:
    """Talks to MCP servers; one object serves a whole process. Each call connects anew.

    Args:
        settings: Of this process: what may be reached, limits, and credentials.
        guard: Looks at each address.
        sleep: Waits for the given seconds.
    """

    def __init__(
        self,
        settings: Settings,
        guard: TargetGuard,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._settings = settings
        self._guard = guard
        self._sleep = sleep

    async def offered(self, server: McpServer, retry: RetrySpec | None, *, go_on: GoOn) -> list[OfferedTool]:
        """All tools of a server.

        Raises:
            McpToolError: It cannot be reached or understood, or has too many.
            SettingsError: The package, a credential or a leave is missing.
        """
        return await self._tried(server, retry or _LISTING, go_on, _listed)

    async def call(self, spec: McpSpec, arguments: Mapping[str, JsonValue], *, go_on: GoOn) -> str:
        """The result of one call as text.

        Raises:
            McpToolError: The server cannot be reached, refused the call, or says that it failed.
            SettingsError: As `offered`.
        """
        name = spec.tool or ""

        async def called(client: Client) -> CallToolResult:
            return await client.call_tool(name, dict(arguments))

        result = await self._tried(spec.server, spec.retry, go_on, called)
        text = mask(_text(result), mcp_headers(self._settings, spec.server))
        if result.is_error:
            raise McpToolError(text or "the server says that the call failed")
        return text

    async def _tried(
        self, server: McpServer, retry: RetrySpec | None, go_on: GoOn, work: Callable[[Client], Awaitable[T]]
    ) -> T:
        attempt = 1
        while True:
            outcome = await self._once(server, work)
            if not isinstance(outcome, _Failed):
                return outcome
            if retry is None or not outcome.may_mend or attempt > retry.max_retries:
                raise outcome.error
            wait = wait_s(retry, attempt, None, random.uniform)
            _log.info("mcp.retried server=%s attempt=%d delay_s=%.2f", server.name, attempt, wait)
            await self._sleep(wait)
            if not await go_on():
                raise outcome.error
            attempt += 1

    async def _once(self, server: McpServer, work: Callable[[Client], Awaitable[T]]) -> T | _Failed:
        try:
            async with asyncio.timeout(self._settings.mcp.timeout_seconds):
                async with connected(server, self._settings, self._guard) as client:
                    return await work(client)
        except Exception as fault:
            return _failed(server, fault)


@dataclass(frozen=True, slots=True)
class _Failed:
    error: RetinueError
    may_mend: bool


def _failed(server: McpServer, fault: Exception) -> _Failed:
    """What became of an attempt, in our own words where the package's may quote a header."""
    causes = _leaves(fault)
    for cause in causes:
        if isinstance(cause, SettingsError | McpToolError):
            return _Failed(cause, may_mend=False)
        if isinstance(cause, TargetRefusedError):
            return _Failed(McpToolError(str(cause)), may_mend=False)
    from mcp.shared.exceptions import MCPError

    where = f"MCP server {server.name!r}"
    for cause in causes:
        if isinstance(cause, httpx2.HTTPStatusError):
            status = cause.response.status_code
            return _Failed(McpToolError(f"{where} answered HTTP {status}."), may_mend=status >= 500)
        if isinstance(cause, MCPError):
            return _Failed(McpToolError(f"{where} answered: {cause.error.message[:1_000]}"), may_mend=False)
    if any(isinstance(cause, TimeoutError | httpx2.TimeoutException) for cause in causes):
        return _Failed(McpToolError(f"{where} did not answer in time."), may_mend=True)
    kind = type(causes[0]).__name__ if causes else type(fault).__name__
    return _Failed(McpToolError(f"{where} cannot be reached ({kind})."), may_mend=True)


def _leaves(fault: BaseException) -> list[BaseException]:
    """The errors within a group, and what caused them."""
    if isinstance(fault, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", fault).exceptions
        return [leaf for each in inner for leaf in _leaves(each)]
    return [fault, *(_leaves(fault.__cause__) if fault.__cause__ else [])]


async def _listed(client: Client) -> list[OfferedTool]:
    found: list[OfferedTool] = []
    cursor: str | None = None
    for _ in range(_PAGES_MAX):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            hints = tool.annotations
            found.append(
                OfferedTool(
                    name=tool.name,
                    description=tool.description or tool.title or tool.name,
                    parameters=cast("dict[str, JsonValue]", tool.input_schema),
                    read_only=bool(hints and hints.read_only_hint),
                    idempotent=bool(hints and hints.idempotent_hint),
                )
            )
        cursor = page.next_cursor
        if not cursor or len(found) > _TOOLS_MAX:
            break
    if cursor or len(found) > _TOOLS_MAX:
        raise McpToolError(f"it lists more than {_TOOLS_MAX} tools")
    return found


def _text(result: CallToolResult) -> str:
    """The texts of a result, with a line for each part that is none; else its structured content."""
    parts = [_part(block) for block in result.content]
    if not parts and result.structured_content is not None:
        return result_text(result.structured_content)
    return "\n".join(parts)


def _part(block: object) -> str:
    kind = str(getattr(block, "type", type(block).__name__))
    if kind == "text":
        return str(getattr(block, "text", ""))
    resource = getattr(block, "resource", None)
    text = getattr(resource, "text", None)
    if isinstance(text, str):
        return text
    uri = getattr(block, "uri", None) or getattr(resource, "uri", None)
    mime = getattr(block, "mime_type", None) or getattr(resource, "mime_type", None)
    about = ", ".join(str(each) for each in (mime, uri) if each)
    return f"[{kind}{f': {about}' if about else ''}, which is no text]"
