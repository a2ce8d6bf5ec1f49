"""`resolve`: from a launch's wishes, a declaration, the settings and the parent to one effective spec."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import JsonValue

from retinue.agents.agentspec.placeholders import fill
from retinue.agents.builtin_tools.output import HOW_TO_END
from retinue.agents.builtin_tools.roster import HANDOFF, SEND_MESSAGE
from retinue.agents.builtin_tools.roster_entry import RosterEntry
from retinue.agents.registry.entry import AgentEntry, Delegation, ToolBinding
from retinue.agents.registry.generic import generic_agent
from retinue.agents.registry.registry import Registry
from retinue.agents.tools.output_validator import check_is_schema
from retinue.contract import Role, SubagentLifecycleError

from .effective import EffectiveSpec, Inheritance, RunnerKind, ToolSpec
from .grants import Grant
from .model_route import route_model
from .offer import Offer
from .prompts import MAY_NOT_ASK, group_instructions

if TYPE_CHECKING:
    from retinue.broker.settings import Settings


def resolve(
    registry: Registry,
    settings: Settings,
    agent_name: str | None,
    *,
    model: str | None = None,
    provider: str | None = None,
    inputs: Mapping[str, JsonValue] | None = None,
    output_schema: Mapping[str, JsonValue] | None = None,
    role: Role = Role.LEAF,
    allowed_toolsets: Iterable[str] | None = None,
    blocked_tools: Iterable[str] = (),
    max_iterations: int | None = None,
    max_tool_calls: int | None = None,
    may_delegate: bool = True,
    owns: str | None = None,
    parent: Inheritance | None = None,
) -> EffectiveSpec:
    """The effective spec of a run, at its first claim.

    Args:
        registry: what this worker can run.
        settings: of this process.
        agent_name: None = the settings' default agent: generic instructions and the granted toolsets. Without
            `allowed_toolsets` these are the parent's; a root then has none.
        model: as the launch asks; before the declaration's, the settings' and the parent's.
        provider: likewise.
        inputs: values for placeholders; a child of a group gets its parent's.
        output_schema: of the run's result; before the one that the run's owner declares.
        role: a leaf may delegate to its declared sub-agents, an orchestrator to any registered agent.
        allowed_toolsets: None = the parent's grant, () = no tool at all.
        blocked_tools: in addition to the settings' and the parent's.
        max_iterations: None = the declaration's, else the settings'.
        max_tool_calls: the launch's cap; it only tightens the declaration's. None = that one, if any.
        may_delegate: False at the deepest level: nobody to delegate to, whatever the role.
        owns: the agent that the run was launched for, whose conversation it is; another one after a handoff.
            None = the agent itself.
        parent: `EffectiveSpec.inheritance()` of the launching run. None = a root.

    Raises:
        SubagentLifecycleError: unknown agent or provider, no model, missing inputs, an output schema that is
            none, or a broader grant than the parent's; field and code say which.
        SettingsError: an Agent Spec document's endpoint is incomplete.
    """
    above = parent or Inheritance()
    wanted = None if allowed_toolsets is None else tuple(allowed_toolsets)
    above.grant.check_not_broadened(wanted)
    grant = above.grant.narrowed(wanted, (*settings.delegation.blocked_tools, *blocked_tools))
    entry = _entry(registry, settings, agent_name, grant, above)
    values = dict(inputs or {})
    check_inputs(entry, values)
    if output_schema is not None:
        check_is_schema(output_schema)
    owner = _owner(registry, entry, owns)
    schema = output_schema or owner.output_schema
    offer = Offer.of(entry, owner.group)
    roster, delegation = _roster(registry, entry, role if may_delegate else None, offer)
    common: dict[str, object] = {
        "agent": entry.name,
        "role": role if may_delegate else Role.LEAF,
        "max_iterations": _limit(max_iterations, entry, above, "max_iterations") or settings.max_iterations,
        "max_tool_calls": _lowest(max_tool_calls, _limit(None, entry, above, "max_tool_calls")),
        "grant": grant,
        "restartable": entry.restartable,
        "groups": entry.groups,
        "title": entry.title,
        "output_schema": schema,
        "document_members": registry.document_members,
    }
    if entry.target is not None:
        return EffectiveSpec.model_validate({**common, "runner": RunnerKind.OBJECT})
    route = route_model(entry, settings, above, model=model, provider=provider)
    inherited = above.params if entry.inherits and route.same_endpoint(above) else {}
    return EffectiveSpec.model_validate(
        {
            **common,
            "instructions": _instructions(
                entry,
                values,
                roster if grant.allows_delegation(SEND_MESSAGE) else (),
                offer.handoffs if grant.allows_delegation(HANDOFF) else (),
                schema,
            ),
            "model": route.model,
            "provider": route.provider,
            "llm": route.llm,
            "params": {
                **(route.llm.params if route.llm else {}),
                **inherited,
                **entry.config.request_params(),
            },
            "tools": tuple(_tool_spec(item) for item in entry.tools if _granted(grant, item)),
            "roster": roster,
            "delegation": delegation,
            "handoffs": offer.handoffs,
            "background": _in_background(entry, settings),
            "ask_user": bool(entry.config.ask_user),
            "ask_parent": bool(entry.config.ask_parent),
        }
    )


def _in_background(entry: AgentEntry, settings: Settings) -> bool:
    own = entry.config.background
    return settings.delegation.background if own is None else own


def _instructions(
    entry: AgentEntry,
    values: Mapping[str, JsonValue],
    roster: Sequence[RosterEntry],
    handoffs: Sequence[RosterEntry],
    schema: Mapping[str, JsonValue] | None,
) -> str:
    prompt = fill(entry.prompt, values, entry.inputs)
    if entry.groups:
        title = entry.title or entry.name
        prompt = group_instructions(title, entry.description, prompt, roster, handoffs)
    ends = (*(() if entry.may_ask else (MAY_NOT_ASK,)), *(() if schema is None else (HOW_TO_END,)))
    return "\n\n".join((prompt, *ends))


def check_inputs(entry: AgentEntry, values: Mapping[str, JsonValue]) -> None:
    """Refuse a launch whose inputs do not fill every prompt of the agent and of everyone below it.

    Raises:
        SubagentLifecycleError: lists what is missing or of the wrong type, by agent.
    """
    problems: list[str] = []
    for agent, inputs in entry.needs.items():
        missing = [item.name for item in inputs if item.name not in values and not item.has_default]
        if missing:
            problems.append(f"{agent} needs {', '.join(missing)}")
        problems.extend(
            f"{agent} needs {item.name} as {' or '.join(item.types)}"
            for item in inputs
            if item.name in values and not item.accepts(values[item.name])
        )
    if problems:
        raise SubagentLifecycleError(
            "; ".join(problems), field="inputs", mend="give each input by name in the launch's inputs"
        )


def _entry(
    registry: Registry, settings: Settings, name: str | None, grant: Grant, parent: Inheritance
) -> AgentEntry:
    if name is not None and name != settings.delegation.default_agent_name:
        return registry.agent(name)
    return generic_agent(registry, settings, parent.toolsets if grant.toolsets is None else grant.toolsets)


def _limit(asked: int | None, entry: AgentEntry, parent: Inheritance, name: str) -> int | None:
    if asked is not None:
        return asked
    own: int | None = getattr(entry.config, name)
    return own if own is not None or not entry.inherits else getattr(parent, name)


def _lowest(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


def _owner(registry: Registry, entry: AgentEntry, owns: str | None) -> AgentEntry:
    """Whose conversation it is, and whose outputs the run owes: not an agent's to whom it was handed over."""
    return entry if owns is None else registry.find_agent(owns) or entry


def _roster(
    registry: Registry, entry: AgentEntry, role: Role | None, offer: Offer
) -> tuple[tuple[RosterEntry, ...], Delegation]:
    """Whom the agent may delegate to, and how; as a role of None, at the deepest level, to nobody."""
    if entry.delegation is Delegation.SEND_MESSAGE:
        roster = () if role is None else offer.roster
        # A handoff launches nothing: no level is too deep for it.
        return roster, Delegation.SEND_MESSAGE if roster or offer.handoffs else Delegation.NONE
    if role is None:
        return (), Delegation.NONE
    if role is Role.LEAF:
        return entry.roster, entry.delegation
    declared = {item.name for item in entry.roster}
    others = [
        item.in_roster()
        for name, item in sorted(registry.agents.items())
        if name not in declared and name != entry.name
    ]
    return (*entry.roster, *others), Delegation.RUN_AGENT


def _granted(grant: Grant, item: ToolBinding) -> bool:
    return grant.allows(item.name, item.toolset) and not grant.blocks(item.api_name)


def _tool_spec(item: ToolBinding) -> ToolSpec:
    return ToolSpec(
        name=item.name,
        api_name=item.api_name,
        toolset=item.toolset,
        description=item.description,
        parameters=dict(item.parameters),
        read_only=item.read_only,
        idempotent=item.tool is not None and item.tool.idempotent,
        kind=item.kind,
        requires_confirmation=item.requires_confirmation,
        remote=item.remote,
        mcp=item.mcp,
    )
