"""Puts the tools of MCP servers into a run's spec, once: a server's change then does not change the run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import cast

from pydantic import JsonValue

from retinue.agents.agentspec.remote_spec import McpServer, McpSpec, McpWish, RetrySpec
from retinue.agents.effective.effective import EffectiveSpec, ToolSpec
from retinue.agents.tools.api_name import api_name, api_names
from retinue.agents.tools.output_validator import check_is_schema
from retinue.agents.tools.tool import RESERVED_TOOL_NAMES
from retinue.contract import DeclarationError, RetinueError, SubagentLifecycleError
from retinue.worker.network.mcp_tools import GoOn, McpToolError, McpTools, OfferedTool


class McpListingError(RetinueError):
    """A run that cannot begin, for its tools are not what its document says; lists all problems."""


async def with_mcp_tools(spec: EffectiveSpec, servers: McpTools, *, go_on: GoOn) -> EffectiveSpec:
    """The spec with each MCP toolbox and tool replaced by what its server offers now.

    Args:
        spec: As it was resolved. Returned as it is if no server is still to be asked.
        servers: Asks them.
        go_on: Asked before a server is asked again; False = the run is to stop.

    Raises:
        McpListingError: A server cannot be asked, lacks a tool, or two tools have one name for the model.
        SettingsError: The package, a credential or a leave is missing.
    """
    waiting = [tool.mcp for tool in spec.tools if tool.mcp is not None and tool.mcp.tool is None]
    if not waiting:
        return spec
    offers = await _ask(waiting, servers, go_on)
    problems: list[str] = []
    tools: list[ToolSpec] = []
    for tool in spec.tools:
        if tool.mcp is None or tool.mcp.tool is not None:
            tools.append(tool)
            continue
        tools.extend(_expanded(tool, tool.mcp, offers[_key(tool.mcp.server)], problems))
    granted = [tool for tool in tools if _granted(spec, tool)]
    problems.extend(_collisions(spec.agent, granted))
    if problems:
        raise McpListingError("; ".join(dict.fromkeys(problems)))
    # Made anew: a copy would keep the digest that the spec may have worked out already.
    return EffectiveSpec.model_validate({**dict(spec), "tools": tuple(granted)})


async def _ask(waiting: Iterable[McpSpec], servers: McpTools, go_on: GoOn) -> Mapping[str, list[OfferedTool]]:
    """What each server offers; all are asked at once, each once."""
    asked: dict[str, tuple[McpServer, RetrySpec | None]] = {}
    for item in waiting:
        asked.setdefault(_key(item.server), (item.server, item.retry))
    answers = await asyncio.gather(
        *(servers.offered(server, retry, go_on=go_on) for server, retry in asked.values()),
        return_exceptions=True,
    )
    problems: list[str] = []
    offers: dict[str, list[OfferedTool]] = {}
    for (key, (server, _)), answer in zip(asked.items(), answers, strict=True):
        if isinstance(answer, McpToolError):
            problems.append(f"the tools of MCP server {server.name!r} cannot be listed: {answer}")
        elif isinstance(answer, BaseException):
            raise answer
        else:
            offers[key] = answer
    if problems:
        raise McpListingError("; ".join(problems))
    return offers


def _expanded(
    tool: ToolSpec, mcp: McpSpec, offered: list[OfferedTool], problems: list[str]
) -> Iterable[ToolSpec]:
    if mcp.wishes is None:
        return [_named(tool, mcp, each, tool.requires_confirmation) for each in offered]
    known = {each.name: each for each in offered}
    found: list[ToolSpec] = []
    for wish in mcp.wishes:
        if wish.name not in known:
            there = ", ".join(sorted(known)) or "none"
            problems.append(
                f"MCP server {mcp.server.name!r} has no tool {wish.name!r} (it has {there[:500]})"
            )
            continue
        each = _as_wished(known[wish.name], wish, mcp.server, problems)
        found.append(_named(tool, mcp, each, tool.requires_confirmation or wish.requires_confirmation))
    return found


def _as_wished(tool: OfferedTool, wish: McpWish, server: McpServer, problems: list[str]) -> OfferedTool:
    """The tool with the document's words, if its arguments are of the document's types."""
    given = cast("Mapping[str, Mapping[str, JsonValue]]", tool.parameters.get("properties") or {})
    properties: dict[str, JsonValue] = {name: dict(schema) for name, schema in given.items()}
    for name, wanted in wish.inputs.items():
        own = given.get(name)
        if own is None or ("type" in own and "type" in wanted and own["type"] != wanted["type"]):
            problems.append(
                f"{tool.name!r} of MCP server {server.name!r} takes no {name!r} of the document's type"
            )
        elif wanted.get("description"):
            properties[name] = {**own, "description": wanted["description"]}
    return OfferedTool(
        name=tool.name,
        description=wish.description or tool.description,
        parameters={**tool.parameters, "properties": properties} if properties else tool.parameters,
        read_only=tool.read_only,
        idempotent=tool.idempotent,
    )


def _named(tool: ToolSpec, mcp: McpSpec, offered: OfferedTool, requires_confirmation: bool) -> ToolSpec:
    return ToolSpec(
        name=offered.name,
        api_name=api_name(offered.name),
        toolset=tool.toolset,
        description=offered.description,
        parameters=_checkable(offered.parameters),
        read_only=offered.read_only,
        idempotent=offered.idempotent,
        kind="mcp",
        requires_confirmation=requires_confirmation,
        mcp=McpSpec(server=mcp.server, tool=offered.name, retry=mcp.retry),
    )


def _checkable(schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The schema without what cannot be checked safely here; the server checks its calls itself."""
    try:
        check_is_schema(schema)
        return dict(schema)
    except SubagentLifecycleError:
        lenient = cast("dict[str, JsonValue]", _without(schema, ("pattern", "patternProperties")))
    try:
        check_is_schema(lenient)
        return lenient
    except SubagentLifecycleError:
        return {"type": "object"}


def _without(schema: object, words: tuple[str, ...]) -> object:
    if isinstance(schema, list):
        return [_without(item, words) for item in cast("list[object]", schema)]
    if isinstance(schema, Mapping):
        members = cast("Mapping[str, object]", schema)
        return {name: _without(value, words) for name, value in members.items() if name not in words}
    return schema


def _granted(spec: EffectiveSpec, tool: ToolSpec) -> bool:
    return spec.grant.allows(tool.name, tool.toolset) and not spec.grant.blocks(tool.api_name)


def _collisions(agent: str, tools: list[ToolSpec]) -> list[str]:
    names = [tool.name for tool in tools]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        return [f"two tools are named {name!r}: a tool_filter can leave one out" for name in twice]
    try:
        api_names(names, owner=f"agent {agent!r}", reserved=RESERVED_TOOL_NAMES)
    except DeclarationError as error:
        return [str(error.args[0])]
    return []


def _key(server: McpServer) -> str:
    return server.model_dump_json()
