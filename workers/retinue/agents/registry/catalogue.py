"""What a worker advertises of its registry: enough to check, route and describe a launch elsewhere."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from pydantic import JsonValue

from retinue.agents.effective.effective import Inheritance
from retinue.agents.effective.model_route import route_model
from retinue.agents.hooks import HookPoint
from retinue.broker.routes import queue_for
from retinue.contract import SettingsError, SubagentLifecycleError, canonical_json

from .entry import AgentEntry
from .generic import generic_agent
from .registry import Registry

if TYPE_CHECKING:
    from retinue.broker.settings import Settings


def advertise(registry: Registry, settings: Settings) -> dict[str, JsonValue]:
    """The catalogue's entries for everything in the registry, without prompts and credentials.

    Returns:
        ``{"agents": [...], "toolsets": {name: [tool names]}}``. Each agent is ``{name, description, model,
        provider, queue, toolsets, sub_agents, inputs, digest, stop_hooks}``; model and provider are what a
        root launch would get now, None if that is open; inputs are those that a launch must give. The default
        agent is always among them.
    """
    entries = {name: registry.agents[name] for name in sorted(registry.agents)}
    default = generic_agent(registry, settings, ())
    entries.setdefault(default.name, default)
    found = {name: set(tools) for name, tools in registry.toolsets.items()}
    for item in (item for entry in entries.values() for item in entry.tools if item.tool is None):
        # Of a toolbox whatever its filter names; the rest is known once a run asks the server.
        wishes = (item.mcp and item.mcp.wishes) or ()
        found.setdefault(item.toolset, set()).update({item.name, *(wish.name for wish in wishes)})
    toolsets: dict[str, JsonValue] = {name: list[JsonValue](sorted(tools)) for name, tools in found.items()}
    stops = any(hook.point is HookPoint.STOP for hook in registry.hooks)
    agents = [{**_advert(entry, settings), "stop_hooks": stops} for entry in entries.values()]
    return {"agents": list[JsonValue](agents), "toolsets": toolsets}


def _advert(entry: AgentEntry, settings: Settings) -> dict[str, JsonValue]:
    model, provider = _model(entry, settings)
    sub_agents = dict.fromkeys(item.registered for item in (*entry.roster, *entry.handoffs))
    needed = {item.name for inputs in entry.needs.values() for item in inputs if not item.has_default}
    return {
        "name": entry.name,
        "description": entry.description,
        "model": model,
        "provider": provider,
        "queue": queue_for(entry.name, settings, entry.config.queue),
        "toolsets": list[JsonValue](sorted({item.toolset for item in entry.tools})),
        "sub_agents": list[JsonValue](sub_agents),
        "inputs": list[JsonValue](sorted(needed)),
        "digest": declaration_digest(entry),
    }


def _model(entry: AgentEntry, settings: Settings) -> tuple[str | None, str | None]:
    if entry.target is not None:
        return None, None
    try:
        route = route_model(entry, settings, Inheritance(), model=None, provider=None)
    except (SubagentLifecycleError, SettingsError):
        return entry.model, entry.provider  # a parent, or the launch, may still fill the gap
    return route.model, route.provider


def declaration_digest(entry: AgentEntry) -> str:
    """SHA-256 over what the declaration says: two workers with the same digest would run it alike."""
    tools: list[JsonValue] = [
        {
            "name": item.name,
            "api_name": item.api_name,
            "toolset": item.toolset,
            "description": item.description,
            "parameters": dict(item.parameters),
            "kind": item.kind,
            "requires_confirmation": item.requires_confirmation,
            "remote": item.remote and item.remote.model_dump(mode="json"),
            "mcp": item.mcp and item.mcp.model_dump(mode="json"),
        }
        for item in entry.tools
    ]
    content: dict[str, JsonValue] = {
        "name": entry.name,
        "prompt": entry.prompt,
        "model": entry.model,
        "provider": entry.provider,
        "llm": entry.llm and entry.llm.model_dump(mode="json"),
        "params": entry.config.request_params(),
        "limits": [entry.config.max_iterations, entry.config.max_tool_calls],
        "tools": tools,
        "roster": [item.model_dump(mode="json") for item in entry.roster],
        "handoffs": [item.model_dump(mode="json") for item in entry.handoffs],
        "place": [entry.title, entry.group, *entry.groups],
        "may_ask": entry.may_ask,
        "output_schema": None if entry.output_schema is None else dict(entry.output_schema),
    }
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()
