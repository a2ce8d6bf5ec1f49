"""Agent Spec documents that come with a launch: whoever launches is not the operator, and gets less trust."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from retinue.contract import AgentSpecError
from retinue.contract.document import agent_document

from .loading import load_agent_spec
from .member import AgentSpecDeclaration


def load_by_value(document: Mapping[str, JsonValue]) -> AgentSpecDeclaration:
    """The declaration of a document that came with a launch.

    It never holds a credential and starts no program, whatever the settings allow.

    Raises:
        AgentSpecError: as `load_agent_spec`, or an MCP server is to be started as a program; lists all.
        SubagentLifecycleError: the document holds a credential.
    """
    declaration = load_agent_spec(agent_document("agent_spec", document))
    started = [
        f"{tool.name!r} of agent {member.name!r}"
        for member in declaration.members
        for tool in member.tools
        if tool.mcp is not None and tool.mcp.server.transport == "stdio"
    ]
    if started:
        raise AgentSpecError(
            f"{', '.join(started)} would start a program on the worker",
            field="client_transport",
            mend="serve it over streamable HTTP; a document that comes with a launch may start nothing",
        )
    return declaration
