from __future__ import annotations

import pytest
from tests.unit.agents.conftest import SettingsFactory

from retinue.agents import (
    Agent,
    AgentConfig,
    Delegation,
    EffectiveSpec,
    Registry,
    RunnerKind,
    SubAgent,
    SubAgentSpec,
    ToolSpec,
    resolve,
    tool,
)
from retinue.broker.settings import Settings
from retinue.contract import ErrorCode, Role, SubagentLifecycleError


class Echo:
    async def run(self, query: str) -> str:
        return query


@tool(toolset="handbook", read_only=True)
def search_handbook(query: str) -> str:
    """Find passages in the staff handbook."""
    return query


@tool(name="Process refund", toolset="shop")
def process_refund(order: str) -> str:
    return order


RESEARCHER = SubAgentSpec(
    name="researcher", description="Answers from the handbook.", tools=[search_handbook], max_tokens=50
)
SUPPORT = Agent(
    name="support",
    instructions="Help {{customer}}. Mind {{ this }}.",
    tools=[process_refund],
    model="gpt-5-mini",
    config=AgentConfig(temperature=0.3, max_tokens=900, max_iterations=7),
    sub_agents=[RESEARCHER, SubAgent(name="echo", agent=Echo(), description="Echoes.", restartable=True)],
)
REGISTRY = Registry.from_objects(SUPPORT, Agent(name="other", instructions="x", model="m"))


def test_the_first_example_resolves_as_written(settings: Settings) -> None:
    spec = resolve(REGISTRY, settings, "support")
    assert (spec.agent, spec.runner, spec.model, spec.provider) == (
        "support",
        RunnerKind.LOOP,
        "gpt-5-mini",
        "openai",
    )
    assert spec.params == {"temperature": 0.3, "max_tokens": 900}
    assert [item.name for item in spec.roster] == ["researcher", "echo"]
    assert [item.name for item in spec.built_in_tools] == ["run_agent", "list_agents"]
    assert spec.max_iterations == 7


def test_a_tool_that_needs_an_approval_says_so_in_the_pinned_spec(settings: Settings) -> None:
    @tool(requires_confirmation=True)
    def pay(amount: int) -> str:
        return "paid"

    agent = Agent(name="payer", instructions="x", model="m", tools=[pay, search_handbook])
    spec = resolve(Registry.from_objects(agent), settings, "payer")
    again = EffectiveSpec.model_validate_json(spec.json_text)
    assert {item.name: item.requires_confirmation for item in again.tools} == {
        "pay": True,
        "search_handbook": False,
    }


def test_a_spec_inherits_what_it_leaves_open_and_nothing_else(settings: Settings) -> None:
    parent = resolve(REGISTRY, settings, "support", max_tool_calls=3).inheritance()
    child = resolve(REGISTRY, settings, "researcher", parent=parent)
    assert (child.model, child.provider) == ("gpt-5-mini", "openai")
    assert child.params == {"temperature": 0.3, "max_tokens": 50}
    assert (child.max_iterations, child.max_tool_calls) == (7, 3)
    assert [item.name for item in child.tools] == ["search_handbook"]
    assert child.instructions.startswith("You are researcher. Answers from the handbook.")
    assert child.delegation is Delegation.NONE


def test_a_spec_with_a_whole_configuration_inherits_no_parameter(settings: Settings) -> None:
    own = SubAgentSpec(name="own", description="d", config=AgentConfig(max_tokens=5), temperature=0.9)
    registry = Registry.from_objects(own)
    parent = resolve(REGISTRY, settings, "support").inheritance()
    child = resolve(registry, settings, "own", parent=parent)
    assert child.params == {"max_tokens": 5, "temperature": 0.9}
    assert child.max_iterations == settings.max_iterations


def test_parameters_are_not_taken_over_to_another_provider(make_settings: SettingsFactory) -> None:
    urls = {name: {"base_url": f"https://{name}.test/v1"} for name in ("openai", "local")}
    own = SubAgentSpec(name="own", description="d", provider="local", model_name="m")
    parent = resolve(REGISTRY, make_settings(providers=urls), "support", provider="openai").inheritance()
    child = resolve(Registry.from_objects(own), make_settings(providers=urls), "own", parent=parent)
    assert (child.provider, child.params) == ("local", {})


def test_an_agent_of_its_own_inherits_no_parameter(settings: Settings) -> None:
    parent = resolve(REGISTRY, settings, "support").inheritance()
    assert resolve(REGISTRY, settings, "other", parent=parent).params == {}


def test_inputs_fill_the_placeholders_that_they_name(settings: Settings) -> None:
    spec = resolve(REGISTRY, settings, "support", inputs={"customer": "Ada"})
    assert spec.instructions == "Help Ada. Mind {{ this }}."


def test_the_launch_comes_before_the_declaration(settings: Settings) -> None:
    spec = resolve(REGISTRY, settings, "support", model="big", max_iterations=2, max_tool_calls=1)
    assert (spec.model, spec.max_iterations, spec.max_tool_calls) == ("big", 2, 1)


def test_a_leaf_has_its_own_roster_and_an_orchestrator_everyone(settings: Settings) -> None:
    leaf = resolve(REGISTRY, settings, "other")
    assert (leaf.roster, leaf.built_in_tools) == ((), ())
    assert not leaf.may_launch("support")
    chief = resolve(REGISTRY, settings, "other", role=Role.ORCHESTRATOR)
    assert [item.name for item in chief.roster] == ["echo", "researcher", "support"]
    assert chief.delegation is Delegation.RUN_AGENT
    assert chief.may_launch("support")
    assert chief.may_launch(None)
    declared = resolve(REGISTRY, settings, "support")
    assert declared.may_launch("echo")
    assert not declared.may_launch("other")


def test_at_the_deepest_level_nobody_delegates(settings: Settings) -> None:
    spec = resolve(REGISTRY, settings, "support", role=Role.ORCHESTRATOR, may_delegate=False)
    assert (spec.role, spec.roster, spec.built_in_tools) == (Role.LEAF, (), ())
    assert not spec.may_launch("echo")


def test_the_grant_narrows_tools_and_never_widens_below(settings: Settings) -> None:
    parent = resolve(REGISTRY, settings, "support", allowed_toolsets=("shop",))
    assert [item.name for item in parent.tools] == ["Process refund"]
    child = resolve(REGISTRY, settings, "researcher", parent=parent.inheritance())
    assert child.tools == ()
    with pytest.raises(SubagentLifecycleError) as caught:
        resolve(REGISTRY, settings, "researcher", allowed_toolsets=("handbook",), parent=parent.inheritance())
    assert caught.value.code is ErrorCode.TOOLSET_BROADENING


def test_an_empty_grant_leaves_no_tool_at_all(settings: Settings) -> None:
    spec = resolve(REGISTRY, settings, "support", allowed_toolsets=())
    assert (spec.tools, spec.built_in_tools) == ((), ())


def test_blocked_tools_of_launch_settings_and_parent_add_up(make_settings: SettingsFactory) -> None:
    settings = make_settings(delegation={"blocked_tools": ("search_handbook",)})
    parent = resolve(REGISTRY, settings, "support", blocked_tools=("Process_refund", "list_agents"))
    assert parent.tools == ()
    assert [item.name for item in parent.built_in_tools] == ["run_agent"]
    child = resolve(REGISTRY, settings, "researcher", parent=parent.inheritance())
    assert child.tools == ()
    assert child.grant.blocked_tools == ("Process_refund", "list_agents", "search_handbook")


def test_without_a_name_the_generic_agent_gets_what_is_granted(make_settings: SettingsFactory) -> None:
    settings = make_settings(default_model="m")
    spec = resolve(REGISTRY, settings, None, allowed_toolsets=("handbook",))
    assert spec.agent == settings.delegation.default_agent_name
    assert [item.name for item in spec.tools] == ["search_handbook"]
    assert resolve(REGISTRY, settings, None).tools == ()
    parent = resolve(REGISTRY, settings, "support").inheritance()
    assert [item.name for item in resolve(REGISTRY, settings, None, parent=parent).tools] == [
        "Process refund"
    ]
    assert resolve(REGISTRY, settings, settings.delegation.default_agent_name).model == "m"


def test_a_declared_agent_may_be_the_default_one(make_settings: SettingsFactory) -> None:
    settings = make_settings(delegation={"default_agent_name": "support"})
    assert resolve(REGISTRY, settings, None).instructions.startswith("Help")


def test_a_foreign_object_has_no_model_and_no_capabilities(make_settings: SettingsFactory) -> None:
    spec = resolve(REGISTRY, make_settings(providers={}), "echo")
    assert (spec.runner, spec.model, spec.provider, spec.restartable) == (RunnerKind.OBJECT, None, None, True)
    flags = spec.capabilities
    assert not any((flags.can_steer, flags.can_checkpoint, flags.can_suspend, flags.reports_usage))
    loop = resolve(REGISTRY, make_settings(), "support").capabilities
    assert all((loop.can_steer, loop.can_checkpoint, loop.can_suspend, loop.reports_usage))


def test_an_unknown_agent_is_refused(settings: Settings) -> None:
    with pytest.raises(SubagentLifecycleError) as caught:
        resolve(REGISTRY, settings, "nobody")
    assert caught.value.code is ErrorCode.UNKNOWN_AGENT


def test_the_spec_survives_json_with_the_same_digest(settings: Settings) -> None:
    spec = resolve(REGISTRY, settings, "support", allowed_toolsets=("shop",), blocked_tools=("x",))
    again = EffectiveSpec.model_validate_json(spec.model_dump_json())
    assert again == spec
    assert again.digest == spec.digest
    assert len(spec.digest) == 64
    assert resolve(REGISTRY, settings, "support", model="other").digest != spec.digest


def test_prompts_stay_out_of_the_repr(settings: Settings) -> None:
    spec = resolve(REGISTRY, settings, "support", inputs={"customer": "Ada"})
    assert "Ada" not in repr(spec)


def test_a_tool_is_found_by_the_name_that_the_model_uses(settings: Settings) -> None:
    spec = resolve(REGISTRY, settings, "support")
    found = spec.find_tool("Process_refund")
    assert found is not None
    assert REGISTRY.find_tool(found.name) is process_refund
    assert spec.find_tool("search_handbook") is None


def test_a_tool_is_found_where_only_case_and_punctuation_differ_unless_two_would_do() -> None:
    def tool_named(name: str) -> ToolSpec:
        return ToolSpec(name=name, api_name=name, toolset="t", description="", parameters={})

    one = EffectiveSpec(agent="a", max_iterations=1, tools=(tool_named("Process_refund"),))
    two = EffectiveSpec(agent="a", max_iterations=1, tools=(tool_named("get_time"), tool_named("Get-Time")))

    assert one.find_tool("process_refund") is one.tools[0]
    assert two.find_tool("get_time") is two.tools[0]
    assert two.find_tool("GetTime") is None
