"""From pyagentspec components to `SpecMember`s; collects every problem of a document before it complains.

Imported only when there is a component at hand, for pyagentspec takes long to import.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, cast

from pyagentspec.agent import Agent
from pyagentspec.component import Component
from pyagentspec.managerworkers import ManagerWorkers
from pyagentspec.property import Property
from pyagentspec.specialized_agent import SpecializedAgent
from pyagentspec.tools.servertool import ServerTool
from pyagentspec.tools.tool import Tool as SpecToolComponent
from pydantic import JsonValue

from retinue.contract import AGENT_NAME_MAX_CHARS, AgentSpecError, DeclarationError

from .agentspec_llm import inline_llm
from .agentspec_member import AgentSpecDeclaration, SpecMember, SpecTool
from .api_name import api_names
from .placeholders import PromptInput, placeholders
from .tool import RESERVED_TOOL_NAMES

_SUPPORTED: Final = "Agent, SpecializedAgent, ManagerWorkers"
_GROUP_DEPTH_MAX: Final = 32


def convert(component: Component, *, name: str | None = None) -> AgentSpecDeclaration:
    """The declaration of a component and of everyone it reaches.

    Args:
        component: an Agent, SpecializedAgent or ManagerWorkers.
        name: registers the component under this name. None = under its own.

    Raises:
        AgentSpecError: it holds something that Retinue does not run; lists all problems.
    """
    conversion = _Conversion()
    conversion.add(component, name=name, depth=0)
    if conversion.problems:
        problems = list(dict.fromkeys(conversion.problems))
        raise AgentSpecError(
            f"{type(component).__name__} {component.name!r}: " + "; ".join(problems), mend=conversion.mend()
        )
    return AgentSpecDeclaration(tuple(conversion.members.values()), tuple(dict.fromkeys(conversion.notes)))


class _Conversion:
    def __init__(self) -> None:
        self.members: dict[str, SpecMember] = {}
        self.problems: list[str] = []
        self.notes: list[str] = []
        self._unsupported = False

    def mend(self) -> str:
        return f"use {_SUPPORTED} with ServerTools" if self._unsupported else "correct the document"

    def add(self, component: Component, *, name: str | None, depth: int) -> str | None:
        """Add the component and everyone below it; the name that it got, or None after a problem."""
        own = name or component.name
        known = self.members.get(own)
        if known is not None:
            if known.source is component:
                return own
            self.problems.append(f"two agents are named {own!r}")
            return None
        if not own.strip() or len(own) > AGENT_NAME_MAX_CHARS or not own.isprintable() or own != own.strip():
            self.problems.append(
                f"{own!r:.80} is no agent name (1 to {AGENT_NAME_MAX_CHARS} printable characters)"
            )
            return None
        if depth > _GROUP_DEPTH_MAX:
            self.problems.append(f"groups are nested deeper than {_GROUP_DEPTH_MAX}")
            return None
        if isinstance(component, ManagerWorkers):
            return self._add_group(component, own, depth)
        member = self._agent(component, own)
        if member is not None:
            self.members[own] = member
        return None if member is None else own

    def _add_group(self, group: ManagerWorkers, name: str, depth: int) -> str | None:
        # A manager that is a group itself acts with its own workers and this group's.
        workers = list(group.workers)
        manager: Component = group.group_manager
        levels = 0
        while isinstance(manager, ManagerWorkers) and levels < _GROUP_DEPTH_MAX:
            workers = [*manager.workers, *workers]
            manager = manager.group_manager
            levels += 1
        member = self._agent(manager, name)
        if member is None:
            return None
        manager_name = manager.name
        if any(worker.name == manager_name for worker in workers):
            self.problems.append(f"the manager and a worker of {name!r} are both named {manager_name!r}")
        if group.outputs:
            self.notes.append(f"outputs of {name!r} are not enforced: its reply is text")
        self.members[name] = member  # before its workers: the entry stands first
        names = [self.add(worker, name=None, depth=depth + 1) for worker in workers]
        self.members[name] = SpecMember(
            name=name,
            description=group.description or member.description,
            prompt=member.prompt,
            inputs=_with_defaults(member.inputs, group.inputs or []),
            llm=member.llm,
            tools=member.tools,
            workers=tuple(dict.fromkeys(worker for worker in names if worker is not None)),
            source=group,
        )
        return name

    def _agent(self, component: Component, name: str) -> SpecMember | None:
        prompt_parts: list[str] = []
        tools: list[SpecToolComponent] = []
        agent = component
        if isinstance(component, SpecializedAgent):
            parameters = component.agent_specialization_parameters
            agent = component.agent
            prompt_parts.append(parameters.additional_instructions or "")
            tools.extend(parameters.additional_tools or [])
        if type(agent) is not Agent:
            self._unsupported = True
            self.problems.append(f"{type(agent).__name__} {agent.name!r} is not supported yet")
            return None
        prompt = "\n\n".join(part for part in [agent.system_prompt, *prompt_parts] if part.strip())
        if agent.outputs:
            self.notes.append(f"outputs of {name!r} are not enforced: its reply is text")
        for part in (*agent.toolboxes, *agent.transforms):
            self._unsupported = True
            self.problems.append(
                f"{type(part).__name__} {part.name!r} of agent {name!r} is not supported yet"
            )
        try:
            llm = inline_llm(agent.llm_config, self.notes)
        except AgentSpecError as error:
            self.problems.append(f"agent {name!r}: {error}")
            return None
        declared = [*(component.inputs or []), *(agent.inputs or [])]  # pyright: ignore[reportAttributeAccessIssue]
        return SpecMember(
            name=name,
            description=(component.description or agent.description or "").strip() or None,
            prompt=prompt,
            inputs=_prompt_inputs(prompt, declared),
            llm=llm,
            tools=self._tools([*agent.tools, *tools], name),
            workers=(),
            source=component,
        )

    def _tools(self, components: list[SpecToolComponent], agent: str) -> tuple[SpecTool, ...]:
        supported: list[SpecToolComponent] = []
        for component in components:
            if type(component) is not ServerTool:
                self._unsupported = True
                self.problems.append(
                    f"{type(component).__name__} {component.name!r} of agent {agent!r} is not supported yet"
                )
            elif component.requires_confirmation:
                # Running it unasked would break what its author relies on.
                self._unsupported = True
                self.problems.append(
                    f"tool {component.name!r} of agent {agent!r} requires confirmation: not supported yet"
                )
            else:
                supported.append(component)
        names = [component.name for component in supported]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            self.problems.append(f"agent {agent!r} has two tools named {', '.join(map(repr, twice))}")
            return ()
        try:
            short = api_names(names, owner=f"agent {agent!r}", reserved=RESERVED_TOOL_NAMES)
        except DeclarationError as error:
            self.problems.append(str(error.args[0]))
            return ()
        return tuple(_spec_tool(component, short[component.name]) for component in supported)


def _spec_tool(component: SpecToolComponent, short: str) -> SpecTool:
    inputs = component.inputs or []
    properties: dict[str, JsonValue] = {}
    for item in inputs:
        schema = cast("Mapping[str, JsonValue]", item.json_schema)
        properties[item.title] = {key: value for key, value in schema.items() if key != "title"}
    required = [item.title for item in inputs if not _has_default(item)]
    parameters: dict[str, JsonValue] = {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    if required:
        parameters["required"] = list[JsonValue](required)
    return SpecTool(
        name=component.name,
        api_name=short,
        description=(component.description or "").strip() or None,
        parameters=parameters,
        names=tuple(properties),
        required=frozenset(required),
    )


def _prompt_inputs(prompt: str, declared: Iterable[Property]) -> tuple[PromptInput, ...]:
    by_name: dict[str, Property] = {}
    for item in declared:
        by_name.setdefault(item.title, item)
    return tuple(
        _prompt_input(by_name[name]) if name in by_name else PromptInput(name)
        for name in placeholders(prompt)
    )


def _with_defaults(inputs: tuple[PromptInput, ...], group: Iterable[Property]) -> tuple[PromptInput, ...]:
    """The inputs, with the group's default where the member itself has none."""
    given = {item.title: _prompt_input(item) for item in group if _has_default(item)}
    return tuple(item if item.has_default else given.get(item.name, item) for item in inputs)


def _prompt_input(item: Property) -> PromptInput:
    kinds = item.json_schema.get("type")
    types = tuple(str(kind) for kind in (cast("list[object]", kinds) if isinstance(kinds, list) else [kinds]))
    has_default = _has_default(item)
    return PromptInput(
        name=item.title,
        types=() if kinds is None else types,
        has_default=has_default,
        default=cast("JsonValue", item.json_schema.get("default")) if has_default else None,
        description=item.description,
    )


def _has_default(item: Property) -> bool:
    return "default" in item.json_schema
