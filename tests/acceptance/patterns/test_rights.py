"""What a launch grants and blocks of the tools that its document brings along, and of the built-in ones."""

from __future__ import annotations

from typing import Any

import pytest
from pyagentspec.property import IntegerProperty
from pyagentspec.tools import ClientTool, RemoteTool, Tool
from tests.acceptance.patterns.groups import ECHO, Case, everything_heard, hand_off, server_tool, swarm

from retinue.contract import ErrorCode, SubagentLifecycleError
from retinue.testing import Call, ScriptedRequest, Turn

OWN = [
    ClientTool(name="ask the user", description="Asks.", inputs=[]),
    RemoteTool(
        name="ask the user", description="Asks.", inputs=[], url="http://127.0.0.1:1/x", http_method="GET"
    ),
]


def offered(asked: ScriptedRequest) -> str:
    tools: list[dict[str, Any]] = asked.body.get("tools", [])
    return ", ".join(tool["function"]["name"] for tool in tools)


@pytest.mark.parametrize("own", OWN, ids=["client", "remote"])
def test_a_documents_own_tool_can_be_blocked(case: Case, own: Tool) -> None:
    agent = case.agent("asker", tools=[own, ECHO])
    case.says("asker").reply(offered)

    assert case.text(agent, blocked_tools=("ask the user",)) == "echo"


@pytest.mark.parametrize("own", OWN, ids=["client", "remote"])
def test_a_documents_own_tool_can_be_granted_alone(case: Case, own: Tool) -> None:
    agent = case.agent("asker", tools=[own, ECHO])
    case.says("asker").reply(offered)

    assert case.text(agent, allowed_toolsets=("ask the user",)) == "ask_the_user"


def test_handing_off_can_be_blocked(case: Case) -> None:
    first, expert = case.agents("first", "expert")
    case.says("first").then(Turn(calls=(hand_off("expert"),))).reply(everything_heard)

    answer = case.text(swarm(first, (first, expert)), blocked_tools=("handoff_conversation",))

    assert "There is no tool 'handoff_conversation'" in answer
    assert "send_message" in answer


def test_the_tool_with_which_a_result_is_handed_in_cannot_be_blocked(case: Case) -> None:
    with pytest.raises(SubagentLifecycleError) as caught:
        case.launch(case.agent("alone"), blocked_tools=("submit_result",))

    assert caught.value.code is ErrorCode.UNKNOWN_TOOLSET


def test_an_argument_that_is_left_out_has_the_documents_default(case: Case) -> None:
    # The function of that name has no default of its own.
    sum_up = server_tool("zbuk", IntegerProperty(title="a"), IntegerProperty(title="b", default=20))
    case.says("counter").then(Turn(calls=(Call("zbuk", {"a": 2}),))).reply(everything_heard)

    assert case.text(case.agent("counter", tools=[sum_up])) == "42"
