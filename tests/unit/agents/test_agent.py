from __future__ import annotations

import pytest

from retinue.agents import Agent, AgentConfig, DeclarationError, SubAgentSpec


@pytest.mark.parametrize("name", ["", " ", "two words", "tab\tname", "x" * 65, "a\u0000", 3])
def test_a_bad_name_is_refused(name: object) -> None:
    with pytest.raises(DeclarationError, match="name"):
        Agent(name=name, instructions="x")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("instructions", " "),
        ("description", ""),
        ("model", ""),
        ("provider", object()),
        ("config", {"temperature": 1}),
        ("tools", "search"),
        ("sub_agents", "researcher"),
    ],
)
def test_a_bad_field_is_named(field: str, value: object) -> None:
    values: dict[str, object] = {"name": "a", "instructions": "x", field: value}
    with pytest.raises(DeclarationError) as caught:
        Agent(**values)  # pyright: ignore[reportArgumentType]
    assert caught.value.field == field
    assert caught.value.mend


def test_an_item_that_is_no_sub_agent_is_named_with_what_may_stand_there() -> None:
    with pytest.raises(
        DeclarationError, match=r"item 0 of agent 'a' is a str.*Agent, SubAgent or SubAgentSpec"
    ):
        Agent(name="a", instructions="x", sub_agents=["b"])  # pyright: ignore[reportArgumentType]


def test_two_sub_agents_of_one_name_and_the_own_name_are_refused() -> None:
    child = SubAgentSpec(name="c", description="d")
    with pytest.raises(DeclarationError, match="two sub-agents named 'c'"):
        Agent(name="a", instructions="x", sub_agents=[child, SubAgentSpec(name="c", description="e")])
    with pytest.raises(DeclarationError, match="its parent's name"):
        Agent(name="c", instructions="x", sub_agents=[child])


@pytest.mark.parametrize(
    "values",
    [
        {"temperature": 2.5},
        {"temperature": float("nan")},
        {"temperature": True},
        {"max_tokens": 0},
        {"max_iterations": True},
        {"max_tool_calls": 1.5},
        {"params": {"api_key": "k"}},
        {"params": {"model": "m"}},
        {"params": {"x": object()}},
        {"params": []},
        {"queue": ""},
    ],
)
def test_a_configuration_checks_its_values(values: dict[str, object]) -> None:
    with pytest.raises(DeclarationError) as caught:
        AgentConfig(**values)  # pyright: ignore[reportArgumentType]
    assert caught.value.field in values
    assert "api_key='k'" not in str(caught.value)


def test_a_child_configuration_inherits_everything_but_the_queue() -> None:
    parent = AgentConfig(temperature=0.1, max_tokens=9, max_iterations=5, params={"top_p": 0.5}, queue="gpu")
    child = AgentConfig.child(parent, temperature=0.9, max_tokens=None)
    assert child == AgentConfig(temperature=0.9, max_iterations=5, params={"top_p": 0.5})


def test_a_child_configuration_refuses_unknown_fields_and_bad_values() -> None:
    with pytest.raises(DeclarationError, match=r"tempo: no such field.*temperature"):
        AgentConfig.child(AgentConfig(), tempo=1)
    with pytest.raises(DeclarationError, match="temperature"):
        AgentConfig.child(AgentConfig(), temperature=3)


def test_a_configuration_keeps_a_copy_of_its_params() -> None:
    params: dict[str, object] = {"top_p": 0.5}
    config = AgentConfig(params=params, temperature=0.2)  # pyright: ignore[reportArgumentType]
    params["top_p"] = 0.9
    assert config.request_params() == {"top_p": 0.5, "temperature": 0.2}
