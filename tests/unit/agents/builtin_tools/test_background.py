"""The tools for agents in the background: when they are offered, and what their calls mean."""

from __future__ import annotations

from typing import Any

import pytest

from retinue.agents import Agent, AgentConfig, DeclarationError, Registry, SubAgentSpec, resolve
from retinue.agents.builtin_tools.background import (
    BACKGROUND_TOOLS,
    AnswerCall,
    CancelCall,
    CheckCall,
    SteerCall,
    WaitCall,
    background_tools,
    read_background,
)
from retinue.agents.builtin_tools.roster import RUN_AGENT, RefusedCall, RunAgentCall, read_delegation
from retinue.broker.settings import Settings

RUN = "sa-p03-3cjiuinqveh76vtgvxocv7v7ou"
CLERK = SubAgentSpec(name="clerk", description="Adds.")


def offered(*, own: bool | None = None, setting: bool = False, **wishes: Any) -> list[str]:
    config = AgentConfig(background=own)
    boss = Agent(name="boss", instructions="i", model="m", sub_agents=[CLERK], config=config)
    settings = Settings.read(
        providers={"openai": {"base_url": "http://h/v1"}}, delegation={"background": setting}
    )
    spec = resolve(Registry.from_objects(boss), settings, "boss", **wishes)
    run_agent = next((tool for tool in spec.built_in_tools if tool.name == RUN_AGENT), None)
    assert run_agent is None or ("background" in str(run_agent.parameters)) is spec.background
    return [tool.name for tool in spec.built_in_tools]


@pytest.mark.parametrize(
    ("own", "setting", "is_offered"),
    [
        (None, False, False),
        (None, True, True),
        (True, False, True),
        (False, True, False),
    ],
)
def test_they_are_offered_where_the_declaration_or_else_the_setting_says_so(
    own: bool | None, setting: bool, is_offered: bool
) -> None:
    names = offered(own=own, setting=setting)
    assert names == [RUN_AGENT, "list_agents", *(BACKGROUND_TOOLS if is_offered else ())]


def test_they_are_not_offered_without_run_agent_and_can_be_blocked_one_by_one() -> None:
    assert offered(own=True, may_delegate=False) == []
    assert "cancel_agent" not in offered(own=True, blocked_tools=["cancel_agent"])
    assert offered(own=True, allowed_toolsets=[]) == []


def test_a_truth_value_is_asked_for() -> None:
    with pytest.raises(DeclarationError, match="background"):
        AgentConfig(background="yes")  # pyright: ignore[reportArgumentType]


def test_the_schemas_refuse_further_arguments() -> None:
    assert tuple(tool.name for tool in background_tools()) == BACKGROUND_TOOLS
    assert all(tool.parameters["additionalProperties"] is False for tool in background_tools())


@pytest.mark.parametrize(
    ("tool", "arguments", "call"),
    [
        ("check_agent", {"id": "a"}, CheckCall("a")),
        ("wait_agents", {}, WaitCall((), any_of=False)),
        ("wait_agents", '{"ids": ["a", "b", "a"], "until": "any"}', WaitCall(("a", "b"), any_of=True)),
        ("wait_agents", {"ids": None, "until": "all"}, WaitCall((), any_of=False)),
        ("steer_agent", {"id": "a", "message": "m"}, SteerCall("a", "m")),
        ("cancel_agent", {"id": "a"}, CancelCall("a", "")),
        ("cancel_agent", {"id": "a", "reason": "r" * 600}, CancelCall("a", "r" * 500)),
        (
            "answer_agent",
            {"question_id": f"{RUN}/12:3", "answer": "Yes."},
            AnswerCall(RUN, "12:3", "Yes."),
        ),
    ],
)
def test_a_call_is_read(tool: str, arguments: Any, call: object) -> None:
    assert read_background(tool, arguments) == call


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("check_agent", {}, "'id'"),
        ("check_agent", {"id": " "}, "'id'"),
        ("check_agent", {"id": "a", "full": True}, "'full'"),
        ("check_agent", "[1]", "JSON"),
        ("wait_agents", {"ids": "a"}, "'ids'"),
        ("wait_agents", {"ids": [1]}, "'ids'"),
        ("wait_agents", {"ids": ["a"] * 101}, "at most 100"),
        ("wait_agents", {"until": "first"}, "'until'"),
        ("steer_agent", {"id": "a"}, "'message'"),
        ("steer_agent", {"id": "a", "message": "m" * 32_001}, "at most 32000"),
        ("cancel_agent", {"id": "a", "reason": 7}, "'reason'"),
        ("answer_agent", {"question_id": RUN, "answer": "a"}, "'question_id'"),
        ("answer_agent", {"question_id": f"{RUN}/1:0"}, "'answer'"),
        ("answer_agent", {"question_id": f"{RUN}/1:0", "answer": "a" * 32_001}, "at most 32000"),
    ],
)
def test_a_call_that_does_not_fit_is_refused_by_name(tool: str, arguments: Any, said: str) -> None:
    read = read_background(tool, arguments)
    assert isinstance(read, RefusedCall)
    assert said in read.text


def test_run_agent_takes_background_only_where_it_is_allowed() -> None:
    roster = (
        Registry.from_objects(Agent(name="boss", instructions="i", sub_agents=[CLERK])).agents["boss"].roster
    )
    asked = {"name": "clerk", "task": "t", "background": True}

    assert read_delegation(RUN_AGENT, asked, roster, background=True) == RunAgentCall("clerk", "t", True)
    without = read_delegation(RUN_AGENT, {"name": "clerk", "task": "t"}, roster, background=True)
    assert without == RunAgentCall("clerk", "t", False)
    for refused in (
        read_delegation(RUN_AGENT, asked, roster),
        read_delegation(RUN_AGENT, {**asked, "background": "yes"}, roster, background=True),
    ):
        assert isinstance(refused, RefusedCall)
        assert "background" in refused.text
