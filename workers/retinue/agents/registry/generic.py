"""The generic agent: what runs when a launch names no agent."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from retinue.agents.effective.prompts import GENERIC_INSTRUCTIONS
from retinue.agents.tools.api_name import api_names
from retinue.agents.tools.tool import RESERVED_TOOL_NAMES

from .entry import AgentEntry, ToolBinding
from .registry import Registry

if TYPE_CHECKING:
    from retinue.broker.settings import Settings


def generic_agent(registry: Registry, settings: Settings, toolsets: Collection[str]) -> AgentEntry:
    """The settings' default agent: a declared one of that name, else a generic one with the given toolsets.

    Args:
        registry: where it may be declared, and whose tools it gets.
        settings: name it, as ``delegation.default_agent_name``.
        toolsets: what the launch grants by name, or the parent has. Nobody declared what a generic agent may
            do, so it gets nothing else.

    Raises:
        DeclarationError: two of the tools have one name for the model.
    """
    name = settings.delegation.default_agent_name
    declared = registry.find_agent(name)
    if declared is not None:
        return declared
    tools = [item for item in registry.tools.values() if item.toolset in toolsets]
    short = api_names([item.name for item in tools], owner=f"agent {name!r}", reserved=RESERVED_TOOL_NAMES)
    return AgentEntry(
        name=name,
        description="Does any task, with the toolsets that it is granted.",
        place="the settings' default agent",
        source=None,
        prompt=GENERIC_INSTRUCTIONS,
        inherits=True,
        tools=tuple(ToolBinding.of(item, short[item.name]) for item in tools),
    )
