"""The tools with which a model asks: who gets them."""

from __future__ import annotations

from typing import Any

import pytest

from retinue.agents import Agent, AgentConfig, DeclarationError, Registry, resolve, tool
from retinue.agents.builtin_tools.asking import ASKING_TOOLS, asking_tools
from retinue.broker.settings import Settings


def offered(config: AgentConfig, **wishes: Any) -> tuple[str, ...]:
    settings = Settings.read(providers={"openai": {"base_url": "http://h/v1"}})
    clerk = Agent(name="clerk", instructions="i", model="m", config=config)
    spec = resolve(Registry.from_objects(clerk), settings, "clerk", **wishes)
    return tuple(tool.name for tool in spec.built_in_tools)


def test_a_model_gets_those_that_its_declaration_names() -> None:
    assert offered(AgentConfig()) == ()
    assert offered(AgentConfig(ask_user=True)) == ("ask_user",)
    assert offered(AgentConfig(ask_user=False, ask_parent=True)) == ("ask_parent",)
    assert offered(AgentConfig(ask_user=True, ask_parent=True)) == ASKING_TOOLS


def test_a_launch_can_take_them_away() -> None:
    both = AgentConfig(ask_user=True, ask_parent=True)
    assert offered(both, blocked_tools=["ask_user"]) == ("ask_parent",)
    assert offered(both, allowed_toolsets=[]) == ()


@pytest.mark.parametrize("name", ASKING_TOOLS)
def test_a_declaration_says_yes_or_no(name: str) -> None:
    with pytest.raises(DeclarationError, match=name):
        AgentConfig(**{name: "yes"})  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("name", [*ASKING_TOOLS, "answer_agent"])
def test_no_tool_of_an_application_takes_their_names(name: str) -> None:
    with pytest.raises(DeclarationError, match="built-in"):

        @tool(name=name)
        def own() -> str:
            """Anything."""
            return ""


def test_both_take_one_question_and_nothing_else() -> None:
    for offer in asking_tools(user=True, parent=True):
        assert offer.parameters["required"] == ["question"]
        assert offer.parameters["additionalProperties"] is False
