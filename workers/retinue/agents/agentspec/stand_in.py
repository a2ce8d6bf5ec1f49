"""Tools that another process has, for looking at a document where they cannot be imported."""

from __future__ import annotations

import inspect
from typing import Never

from pydantic import create_model

from retinue.agents.registry.registry import Registry
from retinue.agents.tools.schema import ArgumentSchema
from retinue.agents.tools.tool import AnyTool, Tool

from .member import AgentSpecDeclaration, SpecTool


def with_stand_ins(registry: Registry, document: AgentSpecDeclaration) -> tuple[Registry, tuple[str, ...]]:
    """The registry with a document's agents, also where their ServerTools are not registered.

    Returns:
        The registry, good for looking at and not for running; and the names of the tools that it only stands
        in for.
    """
    wanted = {
        item.name: item for member in document.members for item in member.tools if item.kind == "server"
    }
    missing = {name: item for name, item in wanted.items() if registry.find_tool(name) is None}
    added = {name: _stand_in(item) for name, item in missing.items()}
    return registry.with_document(document, tools=added), tuple(sorted(missing))


def _stand_in(wanted: SpecTool) -> AnyTool:
    schema = ArgumentSchema(
        names=wanted.names,
        required=frozenset(),
        signature=inspect.Signature(),
        context=None,
        description="",
        parameters=wanted.parameters,
        model=create_model("StandIn"),
    )
    description = wanted.description or wanted.name
    return Tool(wanted.name, description, wanted.name, function=_elsewhere, schema=schema)


def _elsewhere() -> Never:
    raise NotImplementedError("this tool runs on workers only")
