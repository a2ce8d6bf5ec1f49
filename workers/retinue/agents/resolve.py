"""`resolve`: from a launch's wishes, a declaration, the settings and the parent to one effective spec."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pydantic import JsonValue

from retinue.contract import Role, SubagentLifecycleError

from .effective import EffectiveSpec, Inheritance, Runner, ToolSpec
from .entry import AgentEntry, Delegation, RosterEntry, ToolBinding
from .generic import generic_agent
from .grants import Grant
from .model_route import route_model
from .placeholders import fill
from .registry import Registry

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
    role: Role = Role.LEAF,
    allowed_toolsets: Iterable[str] | None = None,
    blocked_tools: Iterable[str] = (),
    max_iterations: int | None = None,
    max_tool_calls: int | None = None,
    may_delegate: bool = True,
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
        role: a leaf may delegate to its declared sub-agents, an orchestrator to any registered agent.
        allowed_toolsets: None = the parent's grant, () = no tool at all.
        blocked_tools: in addition to the settings' and the parent's.
        max_iterations: None = the declaration's, else the settings'.
        max_tool_calls: None = the declaration's, if any.
        may_delegate: False at the deepest level: no built-in tools, whatever the role.
        parent: `EffectiveSpec.inheritance()` of the launching run. None = a root.

    Raises:
        SubagentLifecycleError: unknown agent or provider, no model, missing inputs, or a broader grant than
            the parent's; the code says which.
        SettingsError: an Agent Spec document's endpoint is incomplete.
    """
    above = parent or Inheritance()
    wanted = None if allowed_toolsets is None else tuple(allowed_toolsets)
    above.grant.check_not_broadened(wanted)
    grant = above.grant.narrowed(wanted, (*settings.delegation.blocked_tools, *blocked_tools))
    entry = _entry(registry, settings, agent_name, grant, above)
    values = dict(inputs or {})
    check_inputs(entry, values)
    roster, delegation = _roster(registry, entry, role) if may_delegate else ((), Delegation.NONE)
    common: dict[str, object] = {
        "agent": entry.name,
        "role": role if may_delegate else Role.LEAF,
        "max_iterations": _limit(max_iterations, entry, above, "max_iterations") or settings.max_iterations,
        "max_tool_calls": _limit(max_tool_calls, entry, above, "max_tool_calls"),
        "grant": grant,
        "restartable": entry.restartable,
    }
    if entry.target is not None:
        return EffectiveSpec.model_validate({**common, "runner": Runner.OBJECT})
    route = route_model(entry, settings, above, model=model, provider=provider)
    inherited = above.params if entry.inherits and route.same_endpoint(above) else {}
    return EffectiveSpec.model_validate(
        {
            **common,
            "instructions": fill(entry.prompt, values, entry.inputs),
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
        }
    )


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


def _roster(registry: Registry, entry: AgentEntry, role: Role) -> tuple[tuple[RosterEntry, ...], Delegation]:
    if role is Role.LEAF or entry.delegation is Delegation.SEND_MESSAGE:
        return entry.roster, entry.delegation
    declared = {item.name for item in entry.roster}
    others = [
        item.in_roster()
        for name, item in sorted(registry.agents.items())
        if name not in declared and name != entry.name
    ]
    return (*entry.roster, *others), Delegation.RUN_AGENT


def _granted(grant: Grant, item: ToolBinding) -> bool:
    return grant.allows(item.tool.name, item.tool.toolset) and not grant.blocks(item.api_name)


def _tool_spec(item: ToolBinding) -> ToolSpec:
    return ToolSpec(
        name=item.tool.name,
        api_name=item.api_name,
        toolset=item.tool.toolset,
        description=item.description,
        parameters=dict(item.parameters),
        read_only=item.tool.read_only,
        idempotent=item.tool.idempotent,
    )
