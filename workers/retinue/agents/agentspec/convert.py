"""From pyagentspec components to `SpecMember`s; collects every problem of a document before it complains.

Imported only when there is a component at hand, for pyagentspec takes long to import.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pyagentspec.agent import Agent
from pyagentspec.component import Component
from pyagentspec.managerworkers import ManagerWorkers
from pyagentspec.property import Property
from pyagentspec.specialized_agent import SpecializedAgent
from pyagentspec.swarm import HandoffMode, Swarm

from retinue.agents.builtin_tools.roster_entry import RosterEntry
from retinue.contract import AgentSpecError

from .groups import Layout, name_fault
from .inputs import output_schema, prompt_inputs
from .llm import InlineLlm
from .llm_configs import inline_llm
from .member import AgentSpecDeclaration, SpecMember, SpecTool
from .place import Edge, Place, description_of
from .tools import convert_tools

_SUPPORTED: Final = "Agent, SpecializedAgent, Swarm, ManagerWorkers"


def convert(
    component: Component, *, name: str | None = None, qualified: bool = False
) -> AgentSpecDeclaration:
    """The declaration of a component and of everyone it reaches.

    Args:
        component: an Agent, SpecializedAgent, Swarm or ManagerWorkers.
        name: registers the component under this name. None = under its own.
        qualified: registers every member as ``<name>/<member>``, and not only where its own name is taken.

    Raises:
        AgentSpecError: it holds something that Retinue does not run; lists all problems.
    """
    problems: list[str] = []
    notes: list[str] = []
    own = component.name if name is None else name
    fault = name_fault(own)
    if fault:
        problems.append(fault)
    places = [
        place
        for place in Layout(problems, notes).of(component, own, qualified=qualified)
        if place.is_registered
    ]
    agents = _Agents(problems, notes)
    for place in places:
        agents.read(place.speaker.component)
        _check_titles(place, problems)
    if problems:
        listed = "; ".join(dict.fromkeys(problems))
        raise AgentSpecError(f"{type(component).__name__} {own!r}: {listed}", mend="correct the document")
    members = tuple(_member(place, agents, notes) for place in places)
    return AgentSpecDeclaration(members, tuple(dict.fromkeys(notes)))


@dataclass(frozen=True, slots=True)
class _AgentParts:
    """What an Agent says, with what a SpecializedAgent around it adds."""

    prompt: str
    inputs: tuple[Property, ...]
    outputs: tuple[Property, ...]
    llm: InlineLlm
    tools: tuple[SpecTool, ...]
    human_in_the_loop: bool


class _Agents:
    """The agents of a document, each read once, however many places it has."""

    def __init__(self, problems: list[str], notes: list[str]) -> None:
        self._problems = problems
        self._notes = notes
        self._read: dict[int, _AgentParts] = {}

    def of(self, component: Component) -> _AgentParts:
        """What was read of an agent."""
        return self._read[id(component)]

    def read(self, component: Component) -> None:
        """Read an agent; what it holds that cannot run is listed."""
        if id(component) in self._read:
            return
        agent = component.agent if isinstance(component, SpecializedAgent) else component
        if type(agent) is not Agent:
            self._problems.append(
                f"{type(agent).__name__} {agent.name!r} is not supported: put an agent or a group in its "
                f"place ({_SUPPORTED})"
            )
            return
        parts = self._parts(component, agent)
        if parts is not None:
            self._read[id(component)] = parts

    def _parts(self, component: Component, agent: Agent) -> _AgentParts | None:
        prompt, tools = agent.system_prompt, list(agent.tools)
        inputs, outputs = agent.inputs or [], agent.outputs or []
        in_the_loop = agent.human_in_the_loop
        if isinstance(component, SpecializedAgent):
            added = component.agent_specialization_parameters
            texts = (prompt, added.additional_instructions or "")
            prompt = "\n\n".join(text for text in texts if text.strip())
            tools.extend(added.additional_tools or [])
            inputs, outputs = [*(component.inputs or []), *inputs], component.outputs or outputs
            in_the_loop = in_the_loop if added.human_in_the_loop is None else added.human_in_the_loop
        for part in agent.transforms:
            self._problems.append(
                f"{type(part).__name__} {part.name!r} of agent {component.name!r} is not supported: "
                "take it out"
            )
        converted = convert_tools(tools, agent.toolboxes, component.name, self._problems)
        try:
            llm = inline_llm(agent.llm_config)
        except AgentSpecError as error:
            mend = f" ({error.mend})" if error.mend else ""
            self._problems.append(f"agent {component.name!r}: {error.args[0]}{mend}")
            return None
        return _AgentParts(prompt, tuple(inputs), tuple(outputs), llm, converted, in_the_loop)


def _member(place: Place, agents: _Agents, notes: list[str]) -> SpecMember:
    speaker = place.speaker
    parts = agents.of(speaker.component)
    inputs = prompt_inputs(parts.prompt, parts.inputs, speaker.inputs)
    undeclared = [item.name for item in inputs if not item.has_default and item.name not in speaker.inputs]
    if speaker.inputs and undeclared:
        notes.append(
            f"{speaker.title!r} needs {', '.join(undeclared)}, which no group around it declares: "
            "a launch must give it all the same"
        )
    return SpecMember(
        name=place.name,
        title=place.member.title,
        description=description_of(place.component),
        prompt=parts.prompt,
        inputs=inputs,
        llm=parts.llm,
        tools=parts.tools,
        source=place.component,
        home=None if place.home is None else place.home.name,
        roster=_lines(edge for edge in speaker.edges if edge.sends),
        handoffs=_lines(edge for edge in speaker.edges if edge.hands_off),
        groups=tuple(group.name for group in speaker.groups),
        group=place.name if place.is_group else None,
        output_schema=output_schema(_outputs(place, agents)),
        human_in_the_loop=parts.human_in_the_loop,
    )


def _lines(edges: Iterable[Edge]) -> tuple[RosterEntry, ...]:
    # The inner group's edges come first: they win over an outer one's to the same agent.
    nearest: dict[str, Edge] = {}
    for edge in edges:
        nearest.setdefault(edge.recipient.title, edge)
    return tuple(
        RosterEntry(
            name=title,
            description=description_of(edge.recipient.component) or "",
            agent=edge.recipient.name,
            scope=edge.scope.name,
            sender=edge.sender.name,
        )
        for title, edge in nearest.items()
    )


def _outputs(place: Place, agents: _Agents) -> Iterable[Property]:
    """A group's own; else those of the agent as which it acts, if nobody can take that one's place."""
    component = place.component
    if place.face is None:
        return agents.of(component).outputs
    if isinstance(component, Swarm | ManagerWorkers) and component.outputs:
        return component.outputs
    stays = isinstance(component, ManagerWorkers) or (
        isinstance(component, Swarm) and HandoffMode(component.handoff) is HandoffMode.NEVER
    )
    return _outputs(place.face, agents) if stays else ()


def _check_titles(place: Place, problems: list[str]) -> None:
    """Members of one group have names of their own, but whoever speaks for it sees two groups."""
    found: dict[str, Component] = {}
    for edge in place.speaker.edges:
        title = edge.recipient.title
        if found.setdefault(title, edge.recipient.component) is not edge.recipient.component:
            problems.append(
                f"{place.speaker.title!r} can reach two agents named {title!r}, through two groups that it "
                "speaks for: rename one"
            )
