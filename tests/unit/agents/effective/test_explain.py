"""Where the values of an effective spec come from."""

from __future__ import annotations

from typing import Any

import pytest

from retinue.agents import (
    Agent,
    AgentConfig,
    Registry,
    SubAgent,
    SubAgentSpec,
    load_agent_spec,
    resolve,
    tool,
)
from retinue.agents.agentspec.stand_in import with_stand_ins
from retinue.agents.effective.explain import Wishes, explain
from retinue.broker.settings import Settings

KEY = "sk-not-to-be-shown"
PROVIDER = {"base_url": "http://me:sk-not-to-be-shown@h/v1", "api_key": KEY}
SPEC: dict[str, Any] = {
    "agentspec_version": "25.4.1",
    "component_type": "Agent",
    "id": "a",
    "name": "counter",
    "system_prompt": "Count for {{customer}}.",
    "inputs": [{"title": "customer", "type": "string"}],
    "llm_config": {
        "component_type": "OpenAiCompatibleConfig",
        "id": "l",
        "name": "llm",
        "model_id": "m-spec",
        "url": "http://spec/v1",
    },
    "tools": [
        {
            "component_type": "ServerTool",
            "id": "t",
            "name": "add",
            "description": "Adds.",
            "inputs": [{"title": "a", "type": "integer"}, {"title": "b", "type": "integer"}],
        }
    ],
}


@tool(toolset="sums")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Foreign:
    async def run(self, query: str) -> str:
        return query


CLERK = SubAgentSpec(name="clerk", description="Adds.", tools=[add])
OBJECT = SubAgent(name="thing", agent=Foreign(), description="Is foreign.")
BOSS = Agent(
    name="boss",
    instructions="Boss for {{who}}.",
    model="m-own",
    sub_agents=[CLERK, OBJECT],
    config=AgentConfig(temperature=0.2, max_iterations=7, queue="own"),
)
REGISTRY = Registry.from_objects(BOSS)


def settings(**changes: Any) -> Settings:
    return Settings.read(**{"providers": {"p": PROVIDER}, **changes})


def origins(name: str, *, registry: Registry = REGISTRY, own: Any = None, **how: Any) -> dict[str, str]:
    return {item.name: str(item.origin) for item in explain(registry, own or settings(), name, **how)}


def values(name: str, *, registry: Registry = REGISTRY, own: Any = None, **how: Any) -> dict[str, Any]:
    return {item.name: item.value for item in explain(registry, own or settings(), name, **how)}


def test_a_declarations_own_values_say_so() -> None:
    found = origins("boss")

    own = {"model", "temperature", "max_iterations", "queue", "prompt", "sub_agents"}
    assert {found[name] for name in own} == {"declaration"}
    assert found["provider"] == "settings providers"
    assert found["base_url"] == "provider providers.p"
    assert found["max_tool_calls"] == "default"


def test_the_values_are_those_that_a_run_would_get() -> None:
    spec, found = resolve(REGISTRY, settings(), "boss"), values("boss")

    assert found["model"] == spec.model
    assert found["provider"] == spec.provider
    assert found["max_iterations"] == spec.max_iterations
    assert found["prompt"] == spec.instructions
    assert found["temperature"] == spec.params["temperature"]
    assert [item["name"] for item in found["sub_agents"]] == [item.name for item in spec.roster]


def test_a_launch_settings_and_parent_are_named_where_they_decide() -> None:
    asked = origins("boss", wishes=Wishes(model="x", provider="p", max_iterations=3))
    assert (asked["model"], asked["provider"], asked["max_iterations"]) == ("request",) * 3

    chosen = settings(default_model="m-default", default_provider="p", routes={"cl*": "fast"})
    root = origins("clerk", own=chosen)
    assert (root["model"], root["provider"]) == ("settings default_model", "settings default_provider")
    assert (root["queue"], root["max_iterations"]) == ("settings routes", "settings max_iterations")

    child = origins("clerk", parent="boss")
    assert [child[name] for name in ("model", "provider", "temperature", "max_iterations")] == ["parent"] * 4
    own_model = settings(providers={"p": {**PROVIDER, "default_model": "m-p"}})
    assert origins("clerk", own=own_model)["model"] == "provider providers.p.default_model"


def test_tools_that_a_grant_leaves_out_are_named_with_the_reason() -> None:
    base = settings(default_model="m", delegation={"blocked_tools": ["add"]})
    assert values("clerk", own=base)["tools_left_out"] == ["add"]
    assert origins("clerk", own=base)["tools_left_out"] == "settings delegation.blocked_tools"

    open_ = settings(default_model="m")
    assert values("clerk", own=open_)["tools"] == [{"name": "add", "toolset": "sums"}]
    narrowed = origins("clerk", own=open_, wishes=Wishes(allowed_toolsets=()))
    assert narrowed["tools_left_out"] == "request"


def test_a_foreign_object_has_no_model_and_no_prompt() -> None:
    found = values("thing")
    assert found["runs"] == "Foreign"
    assert "model" not in found
    assert "prompt" not in found


def test_no_credential_is_shown() -> None:
    assert KEY not in str(explain(REGISTRY, settings(), "boss"))
    assert values("boss")["base_url"] == "http://h/v1"


def test_a_document_can_be_looked_at_where_its_tools_are_not() -> None:
    pytest.importorskip("pyagentspec")
    whole, missing = with_stand_ins(REGISTRY, load_agent_spec(SPEC))
    with_tool = {**SPEC, "tools": []}
    bare, none = with_stand_ins(Registry.from_objects(), load_agent_spec(with_tool))

    found = values("counter", registry=whole)
    assert found["model"] == "m-spec"
    assert found["base_url"] == "http://spec/v1"
    assert found["inputs"] == ["customer"]
    assert found["prompt"].startswith("Count for {{customer}}.")
    assert (missing, none) == ((), ())
    assert with_stand_ins(Registry.from_objects(), load_agent_spec(SPEC))[1] == ("add",)
    overridden = settings(llm_configs={"llm": {"url": "http://moved/v1", "model": "m-moved"}})
    assert values("counter", registry=bare, own=overridden)["base_url"] == "http://moved/v1"
    moved = origins("counter", registry=bare, own=overridden)
    assert moved["model"] == "settings llm_configs.llm.model"
    assert moved["base_url"] == "settings llm_configs.llm.url"
