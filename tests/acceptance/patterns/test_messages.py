"""Messages between the members of a group: who sees what, who may write to whom, in which order."""

from __future__ import annotations

import pytest
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
    swarm,
    users_of,
)

from retinue.contract import SubagentState
from retinue.testing import Call, ScriptedRequest, Turn


def test_a_recipient_sees_the_message_and_nothing_of_the_users_conversation(case: Case) -> None:
    first, helper = case.agents("first", "helper")
    case.says("first").then(Turn(calls=(send("helper", "What is it?"),))).then("Told: ${results}")
    case.says("helper").then("It is a lamp.")

    answer = case.text(swarm(first, (first, helper)), "A secret question")

    assert answer == "Told: It is a lamp."  # no edge back is needed to reply
    (asked,) = case.asked("helper")
    assert users_of(asked) == ["What is it?"]
    assert "A secret question" not in str(asked.body)


def test_a_question_back_is_the_reply_and_the_manager_decides(case: Case) -> None:
    boss, clerk = case.agents("boss", "clerk")
    manager = case.says("boss").then(Turn(calls=(send("clerk", "Refund it"),)))
    manager.then(Turn(calls=(send("clerk", "Order 7"),))).then(everything_heard)
    case.says("clerk").then("Which order?").then("Done")

    assert case.text(managed(boss, clerk)) == "Which order?; Done"


def test_a_pair_remembers_and_another_pair_of_the_same_recipient_does_not(case: Case) -> None:
    first, second, clerk = case.agents("first", "second", "clerk")
    opening = case.says("first").then(Turn(calls=(send("clerk", "one"),)))
    opening.then(Turn(calls=(send("clerk", "two"), send("second", "ask the clerk")))).then(everything_heard)
    case.says("second").then(Turn(calls=(send("clerk", "three"),))).then("${results}")
    case.says("clerk").reply(lambda asked: " < ".join(users_of(asked)))

    answer = case.text(swarm(first, (first, clerk), (first, second), (second, clerk)))

    assert answer == "one; one < two; three"


def test_a_pair_remembers_over_turns_of_the_user(case: Case) -> None:
    first, clerk = case.agents("first", "clerk")
    turns = case.says("first").then(Turn(calls=(send("clerk", "one"),))).then("first answer")
    turns.then(Turn(calls=(send("clerk", "two"),))).then("second answer")
    case.says("clerk").reply(lambda asked: " < ".join(users_of(asked)))
    handle = case.launch(swarm(first, (first, clerk)), "Hello")
    assert case.ended(handle).summary == "first answer"

    again = case.lifecycle.continue_run(handle, "And now?")

    assert case.ended(again).summary == "second answer"
    last = case.asked("first")[-1]
    assert users_of(last) == ["Hello", "And now?"]
    assert results_of(last) == ["one", "one < two"]


def test_messages_of_one_turn_are_answered_in_request_order_and_those_to_one_recipient_in_line(
    case: Case,
) -> None:
    boss, slow, quick = case.agents("boss", "slow", "quick")
    calls = (send("slow", "a"), send("quick", "b"), send("slow", "c"))
    case.says("boss").then(Turn(calls=calls)).then("${results}")
    case.says("slow").reply(lambda asked: Turn(text=" < ".join(users_of(asked)), first_byte_after_s=0.2))
    case.says("quick").then("quick")

    assert case.text(managed(boss, slow, quick)) == "a; quick; a < c"


def test_a_tool_and_two_messages_of_one_turn_have_their_results_in_request_order(case: Case) -> None:
    boss, left, right = case.agent("boss", tools=[ECHO]), case.agent("left"), case.agent("right")
    calls = (send("left", "1"), Call("echo", {"text": "two"}), send("right", "3"))
    case.says("boss").then(Turn(calls=calls)).then("${results}")
    case.says("left").then("one")
    case.says("right").then("three")

    assert case.text(managed(boss, left, right)) == "one; two; three"


@pytest.mark.parametrize("recipient", ["nobody", "other", "first"])
def test_an_unknown_recipient_one_without_an_edge_and_oneself_are_refused_with_the_allowed_ones(
    case: Case, recipient: str
) -> None:
    first, clerk, other = case.agents("first", "clerk", "other")
    case.says("first").then(Turn(calls=(send(recipient, "Hi"),))).then("${results}")

    refusal = case.text(swarm(first, (first, clerk), (clerk, other)))

    assert recipient in refusal
    assert "clerk" in refusal
    assert not case.asked("other")


@pytest.mark.parametrize(
    ("arguments", "missing"), [({"recipient": "clerk"}, "message"), ({"message": "Hi"}, "recipient")]
)
def test_a_call_without_an_argument_is_answered_with_its_name(
    case: Case, arguments: dict[str, str], missing: str
) -> None:
    first, clerk = case.agents("first", "clerk")
    case.says("first").then(Turn(calls=(Call("send_message", arguments),))).then("${results}")

    assert missing in case.text(swarm(first, (first, clerk)))
    assert not case.asked("clerk")


def test_a_message_to_ones_own_caller_is_refused_and_the_member_answers_instead(case: Case) -> None:
    first, second = case.agents("first", "second")
    case.says("first").then(Turn(calls=(send("second", "Hi"),))).then("${results}")
    case.says("second").then(Turn(calls=(send("first", "What?"),))).then("Was told: ${results}")

    answer = case.text(swarm(first, (first, second), (second, first)))

    assert answer.startswith("Was told: [REFUSED]")
    assert "answer" in answer
    assert len(case.asked("first")) == 2


def test_with_an_edge_to_itself_a_member_may_ask_itself_once(case: Case) -> None:
    alone = case.agent("alone")

    def reply(asked: ScriptedRequest) -> Turn | str:
        if users_of(asked) == ["Go"]:
            return "Outer: ${results}" if asked.results else Turn(calls=(send("alone", "Think"),))
        return "Inner: ${results}" if asked.results else Turn(calls=(send("alone", "Think more"),))

    case.says("alone").reply(reply)

    answer = case.text(swarm(alone, (alone, alone)))

    assert answer.startswith("Outer: Inner: [REFUSED]")


def test_a_longer_cycle_is_allowed_and_the_nested_run_has_a_thread_of_its_own(case: Case) -> None:
    a, b, c = case.agents("a", "b", "c")

    def reply(asked: ScriptedRequest) -> Turn | str:
        if users_of(asked) == ["from c"]:
            return "nested a"
        return "${results}" if asked.results else Turn(calls=(send("b", "from a"),))

    case.says("a").reply(reply)
    case.says("b").then(Turn(calls=(send("c", "from b"),))).then("b has ${results}")
    case.says("c").then(Turn(calls=(send("a", "from c"),))).then("c has ${results}")

    assert case.text(swarm(a, (a, b), (b, c), (c, a))) == "b has c has nested a"


def test_a_pair_that_waits_is_not_entered_again(case: Case) -> None:
    a, b, c = case.agents("a", "b", "c")

    def reply(asked: ScriptedRequest) -> Turn | str:
        return "a: ${results}" if asked.results else Turn(calls=(send("b", f"after {asked.last_user}"),))

    case.says("a").reply(reply)
    case.says("b").then(Turn(calls=(send("c", "from b"),))).then("b: ${results}")
    case.says("c").then(Turn(calls=(send("a", "from c"),))).then("c: ${results}")

    answer = case.text(swarm(a, (a, b), (b, c), (c, a)))

    assert answer.startswith("a: b: c: a: [REFUSED]")
    assert "b" in answer.rpartition("[REFUSED]")[2]


def test_an_unknown_tool_is_answered_with_those_there_are(case: Case) -> None:
    first, clerk = case.agent("first", tools=[ECHO]), case.agent("clerk")
    case.says("first").then(Turn(calls=(Call("teleport", {}),))).then("${results}")

    answer = case.text(swarm(first, (first, clerk)))

    assert "teleport" in answer
    for name in ("echo", "send_message", "handoff_conversation"):
        assert name in answer


def test_a_tool_that_raises_is_answered_with_its_error_and_the_rest_of_the_turn_with_results(
    case: Case,
) -> None:
    boss, clerk = case.agent("boss", tools=[FAIL, ECHO]), case.agent("clerk")
    calls = (Call("fail", {"text": "it"}), send("clerk", "Hi"), Call("echo", {"text": "fine"}))
    case.says("boss").then(Turn(calls=calls)).then("${results}")
    case.says("clerk").then("hello")

    answer = case.text(managed(boss, clerk))

    assert "cannot do it" in answer
    assert answer.endswith("; hello; fine")


def test_a_recipient_that_fails_is_a_classified_result_and_the_group_goes_on(case: Case) -> None:
    boss, clerk = case.agents("boss", "clerk")
    case.says("boss").then(Turn(calls=(send("clerk", "Hi"),))).then("Sorry: ${results}")
    case.says("clerk").then(Turn(refusal="I will not"))

    assert case.text(managed(boss, clerk)).startswith("Sorry: [CONTENT_REFUSED]")


def test_a_member_that_runs_out_of_iterations_is_a_result_too(case: Case) -> None:
    boss, clerk = case.agent("boss"), case.agent("clerk", tools=[ECHO])
    case.says("boss").then(Turn(calls=(send("clerk", "Hi"),))).then("Sorry: ${results}")
    case.says("clerk").reply(lambda asked: Turn(text="still at it", calls=(Call("echo", {"text": "x"}),)))

    result = case.run(managed(boss, clerk), max_iterations=4)

    assert result.terminal_state is SubagentState.SUCCEEDED
    assert result.summary is not None
    assert result.summary.startswith("Sorry: [MAX_ITERATIONS]")
    assert "still at it" in result.summary


def test_workers_are_offered_no_messages_and_a_manager_no_handoff(case: Case) -> None:
    boss, clerk = case.agents("boss", "clerk")
    calls = (send("clerk", "Hi"), hand_off("clerk"))
    case.says("boss").then(Turn(calls=calls)).then("${results}")
    case.says("clerk").then("hello")

    answer = case.text(managed(boss, clerk))

    assert answer.startswith("hello; [ERROR] There is no tool 'handoff_conversation'")
    assert case.asked("boss")[0].tools == ("send_message",)
    assert case.asked("clerk")[0].tools == ()


@pytest.mark.parametrize(
    ("mode", "first_has", "helper_has"),
    [
        (HandoffMode.NEVER, ("send_message",), ("send_message",)),
        (HandoffMode.OPTIONAL, ("send_message", "handoff_conversation"), ("send_message",)),
    ],
)
def test_what_the_owner_and_a_nested_member_are_offered(
    case: Case, mode: HandoffMode, first_has: tuple[str, ...], helper_has: tuple[str, ...]
) -> None:
    first, helper = case.agents("first", "helper")
    case.says("first").then(Turn(calls=(send("helper", "Hi"),))).then("${results}")
    case.says("helper").then("hello")

    assert case.text(swarm(first, (first, helper), (helper, first), mode=mode)) == "hello"
    assert sorted(case.asked("first")[0].tools) == sorted(first_has)
    assert sorted(case.asked("helper")[0].tools) == sorted(helper_has)
