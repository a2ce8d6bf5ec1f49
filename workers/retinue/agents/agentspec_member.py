"""What Retinue keeps of an Agent Spec document: plain values, free of pyagentspec and of credentials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from .llm import InlineLlm
from .placeholders import PromptInput


@dataclass(frozen=True, slots=True)
class SpecTool:
    """A ServerTool: the document has its name and shape, the registry the function of that name."""

    name: str
    api_name: str
    description: str | None
    parameters: Mapping[str, JsonValue]
    names: tuple[str, ...]  # of the arguments
    required: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class SpecMember:
    """One agent of a document: an Agent, or a group as which its manager acts.

    Args:
        name: unique within the document.
        description: None = the document has none.
        prompt: the system prompt with its placeholders.
        inputs: what the prompt's placeholders need.
        llm: its model.
        tools: its ServerTools.
        workers: names of the members it may send messages to. Empty = it is no group.
        source: the component it was made of; only its identity counts.
    """

    name: str
    description: str | None
    prompt: str = field(repr=False)
    inputs: tuple[PromptInput, ...]
    llm: InlineLlm
    tools: tuple[SpecTool, ...]
    workers: tuple[str, ...]
    source: object = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class AgentSpecDeclaration:
    """A loaded document; assigned at the top level of a module, its agents are registered by name.

    Args:
        members: the agent or group that the document is about, then everyone it reaches.
        notes: what the document asks for and Retinue does not do, one line each.
    """

    members: tuple[SpecMember, ...]
    notes: tuple[str, ...] = ()

    @property
    def entry(self) -> SpecMember:
        """The agent or group that is launched under the declaration's name."""
        return self.members[0]

    @property
    def name(self) -> str:
        """The name that launches use."""
        return self.entry.name
