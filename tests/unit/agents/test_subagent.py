from __future__ import annotations

import pytest

from retinue.agents import Agent, AgentConfig, DeclarationError, NotRunnableError, SubAgent, SubAgentSpec


class Echo:
    async def run(self, query: str, **kwargs: object) -> str:
        return query


def test_every_published_attribute_of_a_spec_is_there_with_its_default() -> None:
    spec = SubAgentSpec(name="a", description="d")
    assert (spec.when_to_use, spec.tools, spec.domain_description, spec.model_name) == (None, (), None, None)
    assert (spec.temperature, spec.max_tokens, spec.provider, spec.config) == (None, None, None, None)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", "two words"),
        ("description", "  "),
        ("when_to_use", ""),
        ("domain_description", " "),
        ("model_name", object()),
        ("provider", object()),
        ("temperature", -1),
        ("temperature", float("inf")),
        ("max_tokens", 0),
        ("config", {}),
        ("tools", [object()]),
    ],
)
def test_a_bad_field_of_a_spec_is_a_value_error_that_names_it(field: str, value: object) -> None:
    values: dict[str, object] = {"name": "a", "description": "d", field: value}
    with pytest.raises(ValueError, match=field) as caught:
        SubAgentSpec(**values)  # pyright: ignore[reportArgumentType]
    assert isinstance(caught.value, DeclarationError)


def test_a_provider_object_is_refused_with_the_way_to_name_one() -> None:
    with pytest.raises(DeclarationError, match=r"\[providers.<name>\]"):
        SubAgentSpec(name="a", description="d", provider=Echo())  # pyright: ignore[reportArgumentType]


def test_a_whole_configuration_may_be_given() -> None:
    spec = SubAgentSpec(name="a", description="d", config=AgentConfig(queue="gpu"))
    assert spec.config == AgentConfig(queue="gpu")


def test_an_object_with_run_and_an_agent_may_be_wrapped() -> None:
    SubAgent(name="echo", agent=Echo(), description="d")
    SubAgent(name="other", agent=Agent(name="a", instructions="x"), description="d")


def test_an_object_without_run_is_a_type_error() -> None:
    for agent in (object(), Echo, "x", None):
        with pytest.raises(TypeError, match=r"run\(\)") as caught:
            SubAgent(name="a", agent=agent, description="d")  # pyright: ignore[reportArgumentType]
        assert isinstance(caught.value, NotRunnableError)
        assert isinstance(caught.value, DeclarationError)


def test_a_run_that_would_fail_at_first_use_is_refused_at_once() -> None:
    class Demanding:
        def run(self, query: str, session: str) -> str:
            return query

    class Deaf:
        def run(self) -> str:
            return ""

    for agent, fault in ((Demanding(), "needs session besides the task"), (Deaf(), "takes no task")):
        with pytest.raises(TypeError, match=fault):
            SubAgent(name="a", agent=agent, description="d")


def test_a_declaration_is_not_wrapped() -> None:
    spec = SubAgentSpec(name="a", description="d")
    with pytest.raises(DeclarationError, match="list that one in sub_agents itself"):
        SubAgent(name="b", agent=spec, description="d")  # pyright: ignore[reportArgumentType]
