"""Makes one `AgentEntry` of each declaration, with its tools looked up."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import replace

from retinue.agents.agent import Agent, AgentConfig
from retinue.agents.agentspec.member import SpecMember, SpecTool
from retinue.agents.agentspec.placeholders import PromptInput
from retinue.agents.builtin_tools.roster_entry import RosterEntry
from retinue.agents.effective.prompts import spec_instructions
from retinue.agents.runnable import Runnable
from retinue.agents.subagent import SubAgent, SubAgentSpec
from retinue.agents.tools.api_name import api_name, api_names, loose
from retinue.agents.tools.output_validator import checked_output
from retinue.agents.tools.tool import RESERVED_TOOL_NAMES, AnyTool, Tool
from retinue.contract import AgentSpecError, DeclarationError

from .collected import AgentDeclaration, Collected
from .entry import AgentEntry, Delegation, ToolBinding


class Enrolment:
    """Turns collected declarations into entries.

    Args:
        collected: all declarations of a worker.
    """

    def __init__(self, collected: Collected) -> None:
        self._collected = collected

    def entries(self) -> dict[str, AgentEntry]:
        """Every agent by name.

        Raises:
            DeclarationError: a tool that is named is not registered, or two have one name for the model.
            AgentSpecError: tools that documents name are not registered, or take other arguments; lists all.
        """
        entries: dict[str, AgentEntry] = {}
        faults: list[AgentSpecError] = []
        for name, (value, place) in self._collected.agents.items():
            try:
                entries[name] = self._entry(name, value, place)
            except AgentSpecError as fault:
                faults.append(fault)
        if len(faults) > 1:
            message = "; ".join(str(fault.args[0]) for fault in faults)
            raise AgentSpecError(message, field=faults[0].field, mend=faults[0].mend)
        if faults:
            raise faults[0]
        return entries

    def _entry(self, name: str, value: AgentDeclaration, place: str) -> AgentEntry:
        if isinstance(value, Agent):
            return self._agent(value, place)
        if isinstance(value, SubAgentSpec):
            return self._spec(value, place)
        if isinstance(value, SpecMember):
            return self._member(value, place)
        entry = self._sub_agent(value, place)
        return replace(
            entry,
            name=name,
            description=value.description,
            when_to_use=value.when_to_use,
            restartable=value.restartable,
            place=place,
            source=value,
        )

    def _agent(self, value: Agent, place: str) -> AgentEntry:
        roster = tuple(roster_line(item) for item in value.sub_agents)
        return AgentEntry(
            name=value.name,
            description=roster_line(value).description,
            place=place,
            source=value,
            prompt=value.instructions,
            tools=self._bindings(value.tools, value.name),
            model=value.model,
            provider=value.provider,
            config=value.config,
            output_schema=checked_output(value.output_schema, agent=value.name),
            roster=roster,
            delegation=Delegation.RUN_AGENT if roster else Delegation.NONE,
        )

    def _spec(self, value: SubAgentSpec, place: str) -> AgentEntry:
        overrides = {"temperature": value.temperature, "max_tokens": value.max_tokens}
        given = {name: item for name, item in overrides.items() if item is not None}
        config = value.config or AgentConfig()
        return AgentEntry(
            name=value.name,
            description=value.description,
            when_to_use=value.when_to_use,
            place=place,
            source=value,
            prompt=spec_instructions(value.name, value.domain_description or value.description),
            tools=self._bindings(value.tools, value.name),
            model=value.model_name,
            provider=value.provider,
            config=replace(config, **given),  # pyright: ignore[reportArgumentType] - of the fields' own types
            inherits=value.config is None,
            output_schema=checked_output(value.output_schema, agent=value.name),
        )

    def _sub_agent(self, value: SubAgent, place: str) -> AgentEntry:
        if isinstance(value.agent, Agent):
            return self._agent(value.agent, place)
        document = self._collected.document_of(value)
        if document is not None:
            return self._member(document.entry, place)
        target: Runnable = value.agent  # pyright: ignore[reportAssignmentType] - the rest of the union
        return AgentEntry(
            name=value.name, description=value.description, place=place, source=value, target=target
        )

    def _member(self, value: SpecMember, place: str) -> AgentEntry:
        return AgentEntry(
            name=value.name,
            description=value.description or "",
            place=place,
            source=value.source,
            prompt=value.prompt,
            inputs=value.inputs,
            needs=self._needs(value),
            tools=self._spec_bindings(value, place),
            llm=value.llm,
            output_schema=checked_output(value.output_schema, agent=value.name),
            roster=value.roster,
            delegation=Delegation.SEND_MESSAGE if value.reaches else Delegation.NONE,
            handoffs=value.handoffs,
            groups=value.groups,
            group=value.group,
            title=value.title,
            may_ask=value.human_in_the_loop,
        )

    def _needs(self, value: SpecMember) -> dict[str, tuple[PromptInput, ...]]:
        """The inputs of the member and of everyone it reaches: all get the root's inputs."""
        found: dict[str, tuple[PromptInput, ...]] = {}
        waiting = [value]
        while waiting:
            member = waiting.pop()
            if member.name in found:
                continue
            found[member.name] = member.inputs
            others = (self._collected.agents[name][0] for name in member.reaches)
            waiting.extend(other for other in others if isinstance(other, SpecMember))
        return {name: inputs for name, inputs in found.items() if inputs}

    def _bindings(self, items: Iterable[object], owner: str) -> tuple[ToolBinding, ...]:
        tools: dict[str, AnyTool] = {}
        for item in items:
            if isinstance(item, Tool):
                tools[item.name] = item
            else:
                tools.update({found.name: found for found in self._named(str(item), owner)})
        short = api_names(tools, owner=f"agent {owner!r}", reserved=RESERVED_TOOL_NAMES)
        return tuple(ToolBinding.of(found, short[found.name]) for found in tools.values())

    def _named(self, name: str, owner: str) -> list[AnyTool]:
        """The tool of that name, or all of the toolset of that name."""
        known = self._collected.tools
        if name in known:
            return [known[name]]
        found = [item for item in known.values() if item.toolset == name]
        if not found:
            raise DeclarationError(
                f"tool {name!r} of agent {owner!r} is not registered",
                field="tools",
                limit=", ".join(sorted(known)) or "no tool is registered",
                mend="declare it with @tool in one of the worker's modules",
            )
        return found

    def _spec_bindings(self, member: SpecMember, place: str) -> tuple[ToolBinding, ...]:
        problems: list[str] = []
        bindings: list[ToolBinding] = []
        for wanted in member.tools:
            if wanted.kind != "server":
                problems.extend(self._taken(wanted))
                bindings.append(ToolBinding.declared(wanted, None))
                continue
            found = _registered(wanted, self._collected.tools)
            if found is None:
                near = difflib.get_close_matches(wanted.name, self._collected.tools, n=1, cutoff=0.5)
                hint = f" (did you mean {near[0]!r}?)" if near else ""
                problems.append(f"ServerTool {wanted.name!r} is not registered{hint}")
                continue
            problems.extend(_mismatches(wanted, found))
            bindings.append(ToolBinding.declared(wanted, found))
        if problems:
            raise AgentSpecError(
                f"agent {member.name!r} at {place}: {'; '.join(problems)}",
                field="tools",
                mend='declare each with @tool(name="...") and the document\'s argument names',
            )
        return tuple(bindings)

    def _taken(self, wanted: SpecTool) -> list[str]:
        """A tool that is no function must not pass for one where launches grant toolsets by name."""
        known = {name for item in self._collected.tools.values() for name in (item.name, item.toolset)}
        if wanted.name not in known:
            return []
        return [f"{wanted.name!r} is the name of a registered tool or toolset: rename it in the document"]


def roster_line(value: Agent | SubAgent | SubAgentSpec) -> RosterEntry:
    """The declaration as a line of a roster."""
    if isinstance(value, Agent):
        first = value.instructions.strip().splitlines()[0]
        return RosterEntry(name=value.name, description=value.description or first)
    return RosterEntry(name=value.name, description=value.description, when_to_use=value.when_to_use)


def _registered(wanted: SpecTool, tools: Mapping[str, AnyTool]) -> AnyTool | None:
    """The tool of that name, else the only one whose name differs in case, blanks and punctuation alone."""
    if wanted.name in tools:
        return tools[wanted.name]
    similar = [item for name, item in tools.items() if loose(api_name(name)) == loose(wanted.api_name)]
    return similar[0] if len(similar) == 1 else None


def _mismatches(wanted: SpecTool, found: AnyTool) -> list[str]:
    """What keeps the document's calls from fitting the function."""
    unknown = [name for name in wanted.names if name not in found.schema.names]
    missing = [
        name for name in found.schema.names if name in found.schema.required and name not in wanted.names
    ]
    problems = [f"{found.place} has no parameter {name!r} of ServerTool {wanted.name!r}" for name in unknown]
    return problems + [
        f"{found.place} needs {name!r}, which ServerTool {wanted.name!r} lacks" for name in missing
    ]
