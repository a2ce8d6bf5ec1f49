"""What Retinue keeps of an Agent Spec document: plain values, free of pyagentspec and of credentials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pydantic import JsonValue

from retinue.agents.builtin_tools.roster_entry import RosterEntry

from .llm import InlineLlm
from .placeholders import PromptInput
from .remote_spec import McpSpec, RemoteSpec, ToolKind


@dataclass(frozen=True, slots=True)
class SpecTool:
    """A tool of a document: its name and shape, and who answers its calls.

    Args:
        name: as the document calls it; a toolbox's own name stands for all of its tools.
        api_name: as the model calls it.
        description: None = the document has none.
        parameters: JSON schema of the arguments.
        names: of the arguments.
        required: those of them that a call must give.
        kind: who answers its calls; a ``server`` tool's function is the registered one of that name.
        requires_confirmation: a call waits until a human approves it.
        remote: the request of a ``remote`` tool.
        mcp: the server of an ``mcp`` tool or toolbox.
    """

    name: str
    api_name: str
    description: str | None
    parameters: Mapping[str, JsonValue]
    names: tuple[str, ...]
    required: frozenset[str]
    kind: ToolKind = "server"
    requires_confirmation: bool = False
    remote: RemoteSpec | None = None
    mcp: McpSpec | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SpecMember:
    """One agent of a document: an Agent, or a group as which its first agent or its manager acts.

    Args:
        name: what it is registered as; unique within the document.
        title: what models call it.
        description: None = the document has none.
        prompt: the system prompt with its placeholders.
        inputs: what the prompt's placeholders need.
        llm: its model.
        tools: its tools and toolboxes.
        source: the component it was made of; only its identity counts.
        home: registered name of the group around it. None = it is what the document is about.
        roster: the members that it may send messages to.
        handoffs: the members that it may hand its conversation over to.
        groups: registered names of the groups in whose conversations it takes part, outermost first.
        group: its own name, if it is a group.
        output_schema: JSON schema of the object that it is to end with. None = a text.
        human_in_the_loop: False = it must finish without asking anybody.
    """

    name: str
    title: str
    description: str | None
    prompt: str = field(repr=False)
    inputs: tuple[PromptInput, ...]
    llm: InlineLlm
    tools: tuple[SpecTool, ...]
    source: object = field(repr=False)
    home: str | None = None
    roster: tuple[RosterEntry, ...] = ()
    handoffs: tuple[RosterEntry, ...] = ()
    groups: tuple[str, ...] = ()
    group: str | None = None
    output_schema: Mapping[str, JsonValue] | None = None
    human_in_the_loop: bool = True

    @property
    def reaches(self) -> tuple[str, ...]:
        """Registered names of all that it may send messages or hand its conversation over to."""
        return tuple(dict.fromkeys(item.registered for item in (*self.roster, *self.handoffs)))

    def renamed(self, names: Mapping[str, str]) -> SpecMember:
        """The member where others, and perhaps it itself, are registered under other names.

        Args:
            names: the new names, by the old.
        """

        def new(name: str | None) -> str | None:
            return None if name is None else names.get(name, name)

        def line(item: RosterEntry) -> RosterEntry:
            changed = {"agent": new(item.registered), "scope": new(item.scope), "sender": new(item.sender)}
            return item.model_copy(update=changed)

        return replace(
            self,
            name=names.get(self.name, self.name),
            home=new(self.home),
            roster=tuple(map(line, self.roster)),
            handoffs=tuple(map(line, self.handoffs)),
            groups=tuple(names.get(group, group) for group in self.groups),
            group=new(self.group),
        )

    def is_the_same_as(self, other: SpecMember) -> bool:
        """Whether one registration can stand for both: the same component, at places that are alike."""
        return self.source is other.source and _place(self) == _place(other)


@dataclass(frozen=True, slots=True, eq=False)
class AgentSpecDeclaration:
    """A loaded document; assigned at the top level of a module, its agents are registered by name.

    Args:
        members: the agent or group that the document is about, then everyone it reaches.
        notes: what the document asks for and Retinue does not do, or does with a doubt, one line each.
    """

    members: tuple[SpecMember, ...]
    notes: tuple[str, ...] = ()

    def renamed(self, names: Mapping[str, str]) -> AgentSpecDeclaration:
        """The document with some members registered under other names, given by the old ones."""
        return replace(self, members=tuple(member.renamed(names) for member in self.members))

    @property
    def entry(self) -> SpecMember:
        """The agent or group that is launched under the declaration's name."""
        return self.members[0]

    @property
    def name(self) -> str:
        """The name that launches use."""
        return self.entry.name


def _place(member: SpecMember) -> tuple[object, ...]:
    return (
        member.roster,
        member.handoffs,
        member.groups,
        member.inputs,
        member.group,
        member.output_schema,
    )
