"""Tools that are answered elsewhere: RemoteTools and MCP tools, behind one guard."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from retinue.agents.effective.effective import EffectiveSpec, ToolSpec
from retinue.broker.outbound.target_guard import TargetGuard
from retinue.broker.settings import Settings
from retinue.contract import RetinueError, SettingsError
from retinue.worker.network.mcp_listing import with_mcp_tools
from retinue.worker.network.mcp_tools import GoOn, McpToolError, McpTools
from retinue.worker.network.remote_tools import RemoteToolError, RemoteTools


class NetworkToolError(RetinueError):
    """A call that got no good answer; the text is the call's result."""


class NetworkTools:
    """Calls tools over the network; one object serves a whole process.

    Args:
        settings: Of this process.
        guard: Looks at each address.
    """

    def __init__(self, settings: Settings, guard: TargetGuard) -> None:
        self._remote = RemoteTools(settings, guard)
        self._mcp = McpTools(settings, guard)

    async def call(self, tool: ToolSpec, arguments: Mapping[str, JsonValue], *, go_on: GoOn) -> str:
        """The result of one call as text.

        Args:
            tool: Of kind ``remote`` or ``mcp``.
            arguments: The call's, by name.
            go_on: Asked before each retry; False = the run is to stop.

        Raises:
            NetworkToolError: It failed, or this worker's settings lack what it needs.
        """
        try:
            if tool.remote is not None:
                return await self._remote.call(tool.remote, arguments, go_on=go_on)
            if tool.mcp is not None and tool.mcp.tool is not None:
                return await self._mcp.call(tool.mcp, arguments, go_on=go_on)
        except (RemoteToolError, McpToolError, SettingsError) as fault:
            raise NetworkToolError(str(fault)) from None
        raise NetworkToolError(f"the tool {tool.name!r} is not available")

    async def completed(self, spec: EffectiveSpec, *, go_on: GoOn) -> EffectiveSpec:
        """The spec with the tools of its MCP servers.

        Raises:
            McpListingError, SettingsError: As `with_mcp_tools`.
        """
        return await with_mcp_tools(spec, self._mcp, go_on=go_on)
