"""Tools and toolboxes of Agent Spec documents as plain `SpecTool`s; collects every problem of an agent's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

from pydantic import JsonValue

from retinue.agents.tools.api_name import api_name, api_names
from retinue.agents.tools.output_validator import check_is_schema
from retinue.agents.tools.tool import RESERVED_TOOL_NAMES
from retinue.contract import AgentSpecError, DeclarationError, SubagentLifecycleError

from .member import SpecTool
from .remote import mcp_server, remote_spec
from .remote_spec import McpSpec, McpWish, RemoteSpec, ToolKind
from .retry import retry_spec

if TYPE_CHECKING:
    from pyagentspec.component import Component
    from pyagentspec.mcp.tools import MCPTool, MCPToolBox, MCPToolSpec
    from pyagentspec.property import Property
    from pyagentspec.tools.remotetool import RemoteTool
    from pyagentspec.tools.tool import Tool

SUPPORTED_TOOLS: Final = "ServerTool, ClientTool, RemoteTool, MCPTool, MCPToolBox"
"""The kinds that Retinue runs, for messages."""

_KINDS: Final[Mapping[str, ToolKind]] = {
    "ServerTool": "server",
    "ClientTool": "client",
    "RemoteTool": "remote",
    "MCPTool": "mcp",
}


def convert_tools(
    components: Sequence[Component], toolboxes: Sequence[Component], owner: str, problems: list[str]
) -> tuple[SpecTool, ...]:
    """The tools of one agent.

    Args:
        components: its tools.
        toolboxes: its toolboxes; each becomes one `SpecTool` of kind ``mcp`` that stands for all of its
            tools until a run asks the server for them.
        owner: the agent's name, for messages.
        problems: gets a line for each thing that cannot be taken; the tool is then missing in the result.
    """
    conversion = _Tools(owner, problems)
    for component in components:
        conversion.add_tool(component)
    for toolbox in toolboxes:
        conversion.add_toolbox(toolbox)
    return conversion.named()


class _Tools:
    def __init__(self, owner: str, problems: list[str]) -> None:
        self._owner = owner
        self._problems = problems
        self._tools: list[SpecTool] = []

    def add_tool(self, component: Component) -> None:
        kind = _KINDS.get(type(component).__name__)
        if kind is None:
            self._refuse(component)
            return
        tool = cast("Tool", component)
        remote: RemoteSpec | None = None
        mcp: McpSpec | None = None
        try:
            if kind == "remote":
                remote = remote_spec(cast("RemoteTool", component))
            elif kind == "mcp":
                mcp = _mcp_tool(cast("MCPTool", component))
        except AgentSpecError as error:
            self._problem(error)
            return
        converted = _spec_tool(tool, kind, remote, mcp)
        try:
            check_is_schema(converted.parameters, field="inputs")
        except SubagentLifecycleError as error:
            self._problems.append(f"{component.name!r} of agent {self._owner!r}: {error}")
            return
        self._tools.append(converted)

    def add_toolbox(self, component: Component) -> None:
        if type(component).__name__ != "MCPToolBox":
            self._refuse(component)
            return
        box = cast("MCPToolBox", component)
        try:
            mcp = _mcp_toolbox(box)
        except AgentSpecError as error:
            self._problem(error)
            return
        self._tools.append(
            SpecTool(
                name=box.name,
                api_name=api_name(box.name),
                description=_text(box.description),
                parameters={"type": "object"},
                names=(),
                required=frozenset(),
                kind="mcp",
                requires_confirmation=box.requires_confirmation,
                mcp=mcp,
            )
        )

    def named(self) -> tuple[SpecTool, ...]:
        """The tools, unless two have one name for the model; an MCP server's own are checked later."""
        names = [tool.name for tool in self._tools]
        offered = [name for tool in self._tools for name in _offered(tool)]
        twice = sorted({n for n in (*names, *offered) if max(names.count(n), offered.count(n)) > 1})
        if twice:
            self._problems.append(f"agent {self._owner!r} has two tools named {', '.join(map(repr, twice))}")
            return ()
        try:
            api_names(offered, owner=f"agent {self._owner!r}", reserved=RESERVED_TOOL_NAMES)
        except DeclarationError as error:
            self._problems.append(str(error.args[0]))
            return ()
        return tuple(self._tools)

    def _refuse(self, component: Component) -> None:
        self._problems.append(
            f"{type(component).__name__} {component.name!r} of agent {self._owner!r} is not supported "
            f"({SUPPORTED_TOOLS} are)"
        )

    def _problem(self, error: AgentSpecError) -> None:
        mend = f" ({error.mend})" if error.mend else ""
        self._problems.append(f"agent {self._owner!r}: {error.args[0]}{mend}")


def _spec_tool(component: Tool, kind: ToolKind, remote: RemoteSpec | None, mcp: McpSpec | None) -> SpecTool:
    properties = _properties(component.inputs or [])
    required = [name for name, schema in properties.items() if "default" not in schema]
    parameters: dict[str, JsonValue] = {
        "type": "object",
        "properties": cast("dict[str, JsonValue]", properties),
        "additionalProperties": False,
    }
    if required:
        parameters["required"] = list[JsonValue](required)
    return SpecTool(
        name=component.name,
        api_name=api_name(component.name),
        description=_text(component.description),
        parameters=parameters,
        names=tuple(properties),
        required=frozenset(required),
        kind=kind,
        requires_confirmation=component.requires_confirmation,
        remote=remote,
        mcp=mcp,
    )


def _mcp_tool(component: MCPTool) -> McpSpec:
    wish = McpWish(
        name=component.name,
        description=_text(component.description),
        inputs=_properties(component.inputs or []),
        requires_confirmation=component.requires_confirmation,
    )
    server = mcp_server(component.client_transport, what=f"MCPTool {component.name!r}")
    return McpSpec(server=server, wishes=(wish,), retry=retry_spec(component.retry_policy))


def _mcp_toolbox(box: MCPToolBox) -> McpSpec:
    server = mcp_server(box.client_transport, what=f"MCPToolBox {box.name!r}")
    wishes = None
    if box.tool_filter is not None:
        wishes = tuple(_wish(item, everything=box.requires_confirmation) for item in box.tool_filter)
    return McpSpec(server=server, wishes=wishes, is_toolbox=True, retry=retry_spec(box.retry_policy))


def _wish(item: MCPToolSpec | str, *, everything: bool) -> McpWish:
    if isinstance(item, str):
        return McpWish(name=item, requires_confirmation=everything)
    return McpWish(
        name=item.name,
        description=_text(item.description),
        inputs=_properties(item.inputs or []),
        requires_confirmation=everything or item.requires_confirmation,
    )


def _properties(inputs: Sequence[Property]) -> dict[str, dict[str, JsonValue]]:
    return {
        item.title: {
            key: value
            for key, value in cast("Mapping[str, JsonValue]", item.json_schema).items()
            if key != "title"
        }
        for item in inputs
    }


def _offered(tool: SpecTool) -> list[str]:
    """The names that the tool, or the known part of a toolbox, has for the model."""
    if tool.mcp is None or not tool.mcp.is_toolbox:
        return [tool.name]
    return [wish.name for wish in tool.mcp.wishes or ()]


def _text(value: str | None) -> str | None:
    return (value or "").strip() or None
