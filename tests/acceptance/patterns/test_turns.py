"""Turns as a whole: mixed calls, failures among them, what histories hold, and what is left unchanged."""

from __future__ import annotations

from itertools import pairwise

import pytest
from pyagentspec.property import IntegerProperty, StringProperty
from pyagentspec.serialization import AgentSpecSerializer
from pyagentspec.swarm import HandoffMode
from tests.acceptance.patterns.groups import (
    ECHO,
    FAIL,
    Case,
    everything_heard,
    hand_off,
    managed,
    results_of,
    send,
    server_tool,
    swarm,
    users_of,
)

from retinue.contract import ErrorClassification, SubagentState
from retinue.testing import Call, ScriptedRequest, Turn, bad_request

ADD, MULTIPLY = (
    server_tool(name, IntegerProperty(title="a"), IntegerProperty(title="b")) for name in ("fooza", "zbuk")
)


def roles(request: ScriptedRequest) -> list[str]:
    """Who spoke, from the first entry of a history to the last; without the system prompt."""
    return [entry["role"] for entry in request.body["messages"] if entry["role"] != "system"]


def test_a_history_holds_prompt_requests_results_in_order_and_answer(case: Case) -> None:
    boss, left, right = case.agent("boss", tools=[ECHO]), case.agent("left"), case.agent("right")
    calls = (send("left", "1"), Call("echo", {"text": "two"}), send("right", "3"))
    case.says("boss").then(Turn(calls=calls)).then("Final.").then("Again.")
    case.says("left").then("one")
    case.says("right").then("three")
    handle = case.launch(managed(boss, left, right), "Prompt")
    assert case.ended(handle).summary == "Final."

    assert case.ended(case.lifecycle.continue_run(handle, "More")).summary == "Again."

    last = case.asked("boss")[-1]
    assert roles(last) == ["user", "assistant", "tool", "tool", "tool", "assistant", "user"]
    assert results_of(last) == ["one", "two", "three"]
    assert [message.text for message in last.messages if message.text][-3:] == ["Prompt", "Final.", "More"]
    assert [result.call_id for result in last.results] == [call.call_id for call in last.calls]


def test_a_workers_thread_holds_messages_and_replies_alone(case: Case) -> None:
    boss, clerk = case.agents("boss", "clerk")
    opening = case.says("boss").then(Turn(calls=(send("clerk", "One?"),)))
    opening.then(Turn(calls=(send("clerk", "Two?"),))).then(everything_heard)
    case.says("clerk").then("First").then("Second")

    assert case.text(managed(boss, clerk)) == "First; Second"
    last = case.asked("clerk")[-1]
    assert roles(last) == ["user", "assistant", "user"]
    assert [message.text for message in last.messages][-3:] == ["One?", "First", "Two?"]


def test_of_three_messages_of_one_turn_one_may_meet_a_tool_that_raises(case: Case) -> None:
    boss, broken = case.agent("boss"), case.agent("two", tools=[FAIL])
    calls = tuple(send(name, "Hi") for name in ("one", "two", "three"))
    case.says("boss").then(Turn(calls=calls)).then("${results}")
    case.says("one").then("1")
    case.says("two").then(Turn(calls=(Call("fail", {"text": "it"}),))).then("2 after ${results}")
    case.says("three").then("3")

    answer = case.text(managed(boss, case.agent("one"), broken, case.agent("three")))

    first, second, third = answer.split("; ")
    assert (first, third) == ("1", "3")
    assert second.startswith("2 after [ERROR]")
    assert "cannot do it" in second


def test_a_recipient_of_one_of_several_messages_may_write_to_another_recipient(case: Case) -> None:
    first, left, right = case.agents("first", "left", "right")
    case.says("first").then(Turn(calls=(send("left", "to left"), send("right", "to right")))).then(
        "${results}"
    )
    case.says("left").then(Turn(calls=(send("right", "from left"),))).then("left(${results})")
    case.says("right").reply(lambda asked: "+".join(users_of(asked)))

    answer = case.text(swarm(first, (first, left), (first, right), (left, right)))

    # Two pairs, two threads: the recipient does not mix them up.
    assert answer == "left(from left); to right"
    assert sorted(users_of(asked)[0] for asked in case.asked("right")) == ["from left", "to right"]


def test_a_worker_that_calls_an_unknown_tool_is_told_and_its_group_ends_well(case: Case) -> None:
    boss, clerk = case.agent("boss"), case.agent("clerk", tools=[ECHO])
    case.says("boss").then(Turn(calls=(send("clerk", "Hi"),))).then("${results}")
    case.says("clerk").then(Turn(calls=(Call("teleport", {}),))).then("Told: ${results}")

    answer = case.text(managed(boss, clerk))

    assert answer.startswith("Told: [ERROR] There is no tool 'teleport'")
    assert "echo" in answer


def test_two_recipients_whose_models_fail_are_two_results_and_can_be_asked_again(case: Case) -> None:
    boss, left, right = case.agents("boss", "left", "right")
    calls = (send("left", "Hi"), send("right", "Hi"))
    case.says("boss").then(Turn(calls=calls)).then(Turn(calls=calls)).then(everything_heard)
    for name in ("left", "right"):
        case.says(name).then(f"{name} is back").fault(bad_request("no such model"))

    answer = case.text(managed(boss, left, right))

    one, two, three, four = answer.split("; ")
    assert one.startswith("[MODEL_REJECTED]")
    assert two.startswith("[MODEL_REJECTED]")
    assert (three, four) == ("left is back", "right is back")


@pytest.mark.parametrize("tool", ["talk_to_user", "end_conversation"])
def test_tools_of_other_runtimes_are_not_offered_and_the_answer_is_the_turn_without_calls(
    case: Case, tool: str
) -> None:
    boss, clerk = case.agents("boss", "clerk")
    calls = (Call(tool, {"text": "Hello."}), send("clerk", "Hi"))
    case.says("boss").then(Turn(text="Said on the way.", calls=calls)).then("${results}")
    case.says("clerk").then("hello")

    answer = case.text(managed(boss, clerk))

    unknown, reply = answer.split("; ")
    assert unknown.startswith(f"[ERROR] There is no tool '{tool}'")
    assert reply == "hello"
    assert tool not in case.asked("boss")[0].tools


def test_in_optional_mode_specialists_may_be_asked_one_after_the_other(case: Case) -> None:
    first, debugger, fixer = case.agent("first"), case.agent("debugger", tools=[ECHO]), case.agent("fixer")
    opening = case.says("first").then(Turn(calls=(send("debugger", "What is wrong?"),)))
    opening.then(Turn(calls=(send("fixer", "Fix ${results}"),))).then("Done: ${results}")
    case.says("debugger").then(Turn(calls=(Call("echo", {"text": "bug 7"}),))).then("${results}")
    case.says("fixer").reply(lambda asked: f"fixed {asked.last_user.removeprefix('Fix ')}")

    group = swarm(first, (first, debugger), (first, fixer), mode=HandoffMode.OPTIONAL)

    assert case.text(group) == "Done: fixed bug 7"


def test_a_handoff_to_a_member_without_an_edge_lists_the_allowed_and_the_turn_goes_on(case: Case) -> None:
    first, middle, last = case.agents("first", "middle", "last")
    case.says("first").then(Turn(calls=(hand_off("last"),))).then(Turn(calls=(hand_off("middle"),)))

    def middle_says(asked: ScriptedRequest) -> Turn | str:
        return results_of(asked)[0]

    case.says("middle").reply(middle_says)

    refusal = case.text(swarm(first, (first, middle), (middle, last)))

    assert "'last'" in refusal
    assert "middle" in refusal
    assert not case.asked("last")


def test_a_later_turn_of_the_user_reaches_the_specialist_that_it_needs(case: Case) -> None:
    desk = case.agent("desk")
    add, multiply = case.agent("add", tools=[ADD]), case.agent("multiply", tools=[MULTIPLY])
    tool_of = {"add": "fooza", "multiply": "zbuk"}

    def passes_on(asked: ScriptedRequest) -> Turn:
        return Turn(calls=(hand_off(asked.last_user),))

    def specialist(asked: ScriptedRequest, name: str) -> Turn | str:
        if asked.last_user != name:
            return Turn(calls=(hand_off(asked.last_user),))
        answers = [result.text for result in asked.results if result.tool == tool_of[name]]
        return answers[-1] if answers else Turn(calls=(Call(tool_of[name], {"a": 2, "b": 2}),))

    case.says("desk").reply(passes_on)
    for name in tool_of:
        case.says(name).reply(lambda asked, name=name: specialist(asked, name))
    group = swarm(desk, (desk, add), (desk, multiply), (add, multiply), mode=HandoffMode.ALWAYS)
    handle = case.launch(group, "add")
    assert case.ended(handle).summary == "9"

    again = case.ended(case.lifecycle.continue_run(handle, "multiply"))

    assert again.summary == "6"
    assert users_of(case.asked("multiply")[-1]) == ["add", "multiply"]
    assert len(case.asked("desk")) == 1


def test_goal_context_and_inputs_of_a_launch_are_there_and_its_handle_stays(case: Case) -> None:
    first, expert = case.agent("first", "For {{user}}."), case.agent("expert", "Of {{user}}.")
    case.says("first").then(Turn(calls=(hand_off("expert"),)))
    case.says("expert").reply(lambda asked: " / ".join(users_of(asked)))

    handle = case.launch(
        swarm(first, (first, expert)), "The goal.", context="The context.", inputs={"user": "Ada"}
    )
    result = case.ended(handle)

    assert result.handle == handle
    assert result.summary is not None
    assert "The goal." in result.summary
    assert "The context." in str(case.asked("expert")[0].body)
    assert "For Ada." in case.asked("first")[0].system
    assert "Of Ada." in case.asked("expert")[0].system


def test_inputs_that_a_swarm_declares_have_their_defaults_in_every_member(case: Case) -> None:
    first, expert = case.agent("first", "In {{city}}."), case.agent("expert", "From {{city}}.")
    case.says("first").then(Turn(calls=(hand_off("expert"),)))
    case.says("expert").reply(lambda asked: "Here.")
    group = swarm(first, (first, expert), inputs=[StringProperty(title="city", default="Ulm")])

    assert case.text(group) == "Here."
    assert "In Ulm." in case.asked("first")[0].system
    assert "From Ulm." in case.asked("expert")[0].system


def test_a_run_leaves_the_components_of_its_group_as_they_were(case: Case) -> None:
    boss, clerk = case.agent("boss", tools=[ECHO]), case.agent("clerk", "For {{user}}.")
    front, expert = case.agents("front", "expert")
    desk = swarm(front, (front, expert), name="desk", description="The desk.")
    group = managed(boss, clerk, desk, name="company", inputs=[StringProperty(title="user")])
    components = (group, boss, clerk, desk, front, expert)
    before = [component.id for component in components], AgentSpecSerializer().to_json(group)
    case.says("boss").then(Turn(calls=(send("clerk", "Hi"), send("desk", "Hi")))).then("${results}")
    case.says("clerk").then("hello")
    case.says("front").then(Turn(calls=(hand_off("expert"),)))
    case.says("expert").reply(lambda asked: "expert")

    for first, second in pairwise(case.text(group, inputs={"user": "Ada"}) for _ in range(2)):
        assert first == second == "hello; expert"

    assert ([component.id for component in components], AgentSpecSerializer().to_json(group)) == before


def test_a_group_ends_whenever_its_owner_says_something_and_can_be_taken_up_again(case: Case) -> None:
    boss, clerk = case.agents("boss", "clerk")
    opening = case.says("boss").then("What do you want?")
    opening.then(Turn(calls=(send("clerk", "Refund"),))).then("${results}")
    case.says("clerk").then("paid")
    handle = case.launch(managed(boss, clerk), "Hello")
    asked_back = case.ended(handle)
    assert (asked_back.terminal_state, asked_back.summary) == (SubagentState.SUCCEEDED, "What do you want?")

    assert case.ended(case.lifecycle.continue_run(handle, "My money")).summary == "paid"


def test_what_was_answered_before_a_run_was_cut_stands_in_the_next_turns_history(case: Case) -> None:
    first, expert = case.agent("first", tools=[ECHO]), case.agent("expert")
    case.says("first").then(Turn(calls=(Call("echo", {"text": "heard"}),))).reply(everything_heard)
    cut = case.launch(swarm(first, (first, expert)), max_iterations=1)
    assert case.ended(cut).error_classification is ErrorClassification.MAX_ITERATIONS

    following = case.lifecycle.continue_run(cut, "Go on.")

    assert case.ended(following).summary == "heard"
