"""Gathers what modules declare, by name, and stops at the first name that stands for two things.

A component of Agent Spec may stand in several places: by itself at a module's top level, and in groups. Its
places have one registration where they are alike. Else a member of a group is registered within its group.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Final

from retinue.agents.agent import Agent
from retinue.agents.agentspec.loading import is_agentic, load_agent_spec
from retinue.agents.agentspec.member import AgentSpecDeclaration, SpecMember
from retinue.agents.hooks import AnyHook, Hook
from retinue.agents.subagent import SubAgent, SubAgentSpec
from retinue.agents.tools.tool import AnyTool, Tool
from retinue.contract import DeclarationError

AgentDeclaration = Agent | SubAgent | SubAgentSpec | SpecMember

# Asked of the type: isinstance would wake lazy objects, such as Django's settings, that modules import.
_DECLARED: Final = (Tool, Hook, AgentSpecDeclaration, Agent, SubAgent, SubAgentSpec)
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Collected:
    """Declared agents and tools by name, each with its place, and hooks in the order of their declaration."""

    agents: dict[str, tuple[AgentDeclaration, str]] = field(
        default_factory=dict[str, tuple[AgentDeclaration, str]]
    )
    tools: dict[str, AnyTool] = field(default_factory=dict[str, AnyTool])
    hooks: list[AnyHook] = field(default_factory=list[AnyHook])
    documents: dict[int, AgentSpecDeclaration] = field(default_factory=dict[int, AgentSpecDeclaration])
    _unplaced: list[tuple[AgentSpecDeclaration, str]] = field(
        default_factory=list[tuple[AgentSpecDeclaration, str]], init=False
    )
    _placed: dict[int, AgentSpecDeclaration] = field(
        default_factory=dict[int, AgentSpecDeclaration], init=False
    )

    def add(self, value: object, place: str) -> bool:
        """Take the value, and all that it declares, if it declares something; other values are passed over.

        Args:
            value: anything that stands at a module's top level.
            place: where, for messages.

        Returns:
            Whether it declares something.

        Raises:
            DeclarationError: another thing has its name; names both places.
        """
        if not issubclass(type(value), _DECLARED) and not is_agentic(value):
            return False
        if isinstance(value, Tool):
            self._add_tool(value)
        elif isinstance(value, Hook):
            self._add_hook(value)
        elif isinstance(value, AgentSpecDeclaration):
            self._add_document(value, place)
        elif isinstance(value, Agent | SubAgent | SubAgentSpec):
            self._add_agent(value.name, value, place)
            self._add_parts(value, place)
        else:
            self._add_document(load_agent_spec(value), place)  # pyright: ignore[reportArgumentType]
        return True

    def place_members(self) -> None:
        """Register the members of the documents; to be called once, when every declaration is in.

        Raises:
            DeclarationError: a member has another agent's name; names both places.
        """
        # A group comes before those that hold it: they can then have its registration.
        for document, place in sorted(self._unplaced, key=lambda item: len(item[0].members)):
            placed = self._settled(document)
            self._placed[id(document)] = placed
            if self.agents.get(document.name, (None,))[0] is document.entry:
                self.agents[document.name] = (placed.entry, place)
            for member in placed.members[1:]:
                self._add_agent(member.name, member, place)

    def document_of(self, declaration: SubAgent) -> AgentSpecDeclaration | None:
        """The Agent Spec document that a SubAgent runs; None for other agents."""
        agent = declaration.agent
        if isinstance(agent, AgentSpecDeclaration):
            document = agent
        elif is_agentic(agent):
            if id(agent) not in self.documents:
                self.documents[id(agent)] = load_agent_spec(agent)  # pyright: ignore[reportArgumentType]
            document = self.documents[id(agent)]
        else:
            return None
        return self._placed.get(id(document), document)

    def _add_parts(self, value: Agent | SubAgent | SubAgentSpec, place: str) -> None:
        if isinstance(value, SubAgent):
            document = self.document_of(value)
            if document is not None:
                self._add_document(document, place, entry=False)
            elif isinstance(value.agent, Agent):
                self._add_parts(value.agent, f"{place}.agent")
            return
        for item in value.tools:
            if isinstance(item, Tool):
                self._add_tool(item)
        if isinstance(value, Agent):
            for number, sub_agent in enumerate(value.sub_agents):
                self.add(sub_agent, f"{place}.sub_agents[{number}]")

    def _add_document(self, document: AgentSpecDeclaration, place: str, *, entry: bool = True) -> None:
        for note in document.notes:
            _log.warning("agent_spec_note place=%s note=%r", place, note)
        if entry:
            self._add_agent(document.name, document.entry, place)
        self._unplaced.append((document, place))

    def _settled(self, document: AgentSpecDeclaration) -> AgentSpecDeclaration:
        """The document with those members renamed whose component is registered at another place."""
        names: dict[str, str] = {}
        placed = document
        while True:
            # From the inside out: a group is the same as another once its members are.
            for before, member in reversed(list(zip(document.members, placed.members, strict=True))[1:]):
                if before.name not in names and self._stands_elsewhere(member):
                    names[before.name] = f"{member.home}/{before.title}"
                    break
            else:
                return placed
            placed = document.renamed(names)

    def _stands_elsewhere(self, member: SpecMember) -> bool:
        known = self.agents.get(member.name, (None,))[0]
        if not isinstance(known, SpecMember) or known.source is not member.source:
            return False
        return not known.is_the_same_as(member)

    def _add_agent(self, name: str, value: AgentDeclaration, place: str) -> None:
        known = self.agents.setdefault(name, (value, place))
        if _identity(known[0]) is not _identity(value):
            raise DeclarationError(
                f"two agents are named {name!r}: at {known[1]} and at {place}",
                field="name",
                mend="rename one of them; an Agent Spec document with load_agent_spec(..., name=...), its "
                "members with qualified=True",
            )

    def _add_hook(self, value: AnyHook) -> None:
        # One module may import it from another: it is called once all the same.
        if not any(known is value for known in self.hooks):
            self.hooks.append(value)

    def _add_tool(self, value: AnyTool) -> None:
        known = self.tools.setdefault(value.name, value)
        if known.function is not value.function:
            raise DeclarationError(
                f"two tools are named {value.name!r}: {known.place} and {value.place}",
                field="name",
                mend="rename one of them with @tool(name=...)",
            )


def _identity(value: AgentDeclaration) -> object:
    return value.source if isinstance(value, SpecMember) else value
