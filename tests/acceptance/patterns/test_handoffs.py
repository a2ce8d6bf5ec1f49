"""Handoffs: the run stays, its agent changes, and whoever has the conversation keeps it."""

from __future__ import annotations

import pytest
from pyagentspec.swarm import HandoffMode
from tests.acceptance.patterns.groups import (
    ECHO,
    Case,
    everything_heard,
    hand_off,
    results_of,
    send,
    swarm,
    users_of,
)

from retinue.contract import ErrorClassification, EventType, SubagentState
from retinue.testing import Call, ScriptedRequest, Turn


def test_a_handoff_keeps_the_run_and_gives_the_whole_conversation_away(case: Case) -> None:
    first, expert = case.agents("first", "expert")
    case.says("first").then(Turn(text="One moment.", calls=(hand_off("expert"),)))
    case.says("expert").reply("The expert speaks.")
    handle = case.launch(swarm(first, (first, expert)), "Who knows?")

    result = case.ended(handle)

    assert result.summary == "The expert speaks."
    assert result.handle == handle
    (asked,) = case.asked("expert")
    assert users_of(asked) == ["Who knows?"]
    assert [call.tool for call in asked.calls] == ["handoff_conversation"]
    (told,) = results_of(asked)
    assert "first" in told
    assert "expert" in told
    assert len(case.lifecycle.tree(handle)) == 1
    events = [event for event in case.lifecycle.events(handle) if event.type is EventType.RUN_HANDED_OFF]
    assert [event.run_id for event in events] == [handle.subagent_id]


def test_the_receiver_stays_the_owner_over_later_turns_of_the_user(case: Case) -> None:
    first, expert = case.agents("first", "expert")
    case.says("first").then(Turn(calls=(hand_off("expert"),)))
    case.says("expert").reply(lambda asked: f"expert: {asked.last_user}")
    handle = case.launch(swarm(first, (first, expert)), "one")
    assert case.ended(handle).summary == "expert: one"

    second = case.lifecycle.continue_run(handle, "two")
    assert case.ended(second).summary == "expert: two"
    third = case.lifecycle.continue_run(second, "three")

    assert case.ended(third).summary == "expert: three"
    assert len(case.asked("first")) == 1
    assert users_of(case.asked("expert")[-1]) == ["one", "two", "three"]


def test_after_a_handoff_the_receivers_edges_apply_and_the_former_owner_can_be_asked(case: Case) -> None:
    first, expert, clerk = case.agents("first", "expert", "clerk")

    def opening(asked: ScriptedRequest) -> Turn | str:
        if users_of(asked) == ["What did they want?"]:
            return "a lamp"
        return Turn(calls=(hand_off("expert"),))

    case.says("first").reply(opening)
    calls = (send("first", "What did they want?"), send("clerk", "Price?"))
    expert_says = case.says("expert")
    expert_says.reply(lambda asked: everything_heard(asked) if len(asked.results) > 1 else Turn(calls=calls))
    case.says("clerk").then("19")

    answer = case.text(swarm(first, (first, expert), (expert, first), (expert, clerk)))

    assert answer.endswith("; a lamp; 19")
    assert users_of(case.asked("first")[-1]) == ["What did they want?"]


def test_a_conversation_goes_back_only_along_an_edge(case: Case) -> None:
    first, expert = case.agents("first", "expert")
    case.says("first").then(Turn(calls=(hand_off("expert"),)))

    def expert_says(asked: ScriptedRequest) -> Turn | str:
        return asked.results[-1].text if len(asked.results) > 1 else Turn(calls=(hand_off("first"),))

    case.says("expert").reply(expert_says)

    answer = case.text(swarm(first, (first, expert)))

    assert answer.startswith("[ERROR] There is no tool 'handoff_conversation'")


def test_calls_before_a_handoff_are_answered_and_those_after_it_cancelled(case: Case) -> None:
    first, expert, clerk = case.agent("first", tools=[ECHO]), case.agent("expert"), case.agent("clerk")
    calls = (
        Call("echo", {"text": "tool before"}),
        send("clerk", "Hi"),
        hand_off("expert"),
        Call("echo", {"text": "tool after"}),
        send("clerk", "Too late"),
        hand_off("clerk"),
    )
    case.says("first").then(Turn(calls=calls))
    case.says("clerk").then("message before")
    case.says("expert").reply("Mine.")

    assert case.text(swarm(first, (first, expert), (first, clerk))) == "Mine."
    (asked,) = case.asked("expert")
    results = results_of(asked)
    assert results[:2] == ["tool before", "message before"]
    assert all("cancelled" in text.lower() for text in results[3:])
    assert len(results) == 6
    assert len(case.asked("clerk")) == 1


def test_calls_after_an_invalid_handoff_are_cancelled_too(case: Case) -> None:
    first, expert = case.agent("first", tools=[ECHO]), case.agent("expert")
    calls = (Call("echo", {"text": "before"}), hand_off("nobody"), Call("echo", {"text": "after"}))
    case.says("first").then(Turn(calls=calls)).then("${results}")

    before, refused, after = case.text(swarm(first, (first, expert))).split("; ", 2)

    assert before == "before"
    assert "nobody" in refused
    assert "expert" in refused
    assert "cancelled" in after.lower()
    assert not case.asked("expert")


@pytest.mark.parametrize("mode", [HandoffMode.OPTIONAL, HandoffMode.NEVER])
def test_a_nested_member_is_offered_no_handoff_and_one_that_it_invents_is_an_unknown_tool(
    case: Case, mode: HandoffMode
) -> None:
    first, helper, other = case.agents("first", "helper", "other")
    case.says("first").then(Turn(calls=(send("helper", "Hi"),))).then("${results}")
    case.says("helper").then(Turn(calls=(hand_off("other"),))).then("${results}")

    answer = case.text(swarm(first, (first, helper), (helper, other), mode=mode))

    assert answer.startswith("[ERROR] There is no tool 'handoff_conversation'")
    assert "send_message" in answer
    assert not case.asked("other")


def test_a_nested_run_of_the_owner_is_offered_no_handoff(case: Case) -> None:
    a, b, c = case.agents("a", "b", "c")

    def reply(asked: ScriptedRequest) -> Turn | str:
        if users_of(asked) == ["from c"]:
            return asked.results[-1].text if asked.results else Turn(calls=(hand_off("b"),))
        return "${results}" if asked.results else Turn(calls=(send("b", "from a"),))

    case.says("a").reply(reply)
    case.says("b").then(Turn(calls=(send("c", "from b"),))).then("${results}")
    case.says("c").then(Turn(calls=(send("a", "from c"),))).then("${results}")

    answer = case.text(swarm(a, (a, b), (b, c), (c, a)))

    assert answer.startswith("[ERROR] There is no tool 'handoff_conversation'")
    nested = [asked for asked in case.asked("a") if users_of(asked) == ["from c"]]
    assert [asked.tools for asked in nested] == [("send_message",)] * 2


def test_in_always_mode_handing_off_is_the_only_way(case: Case) -> None:
    first, debugger, fixer = case.agent("first"), case.agent("debugger", tools=[ECHO]), case.agent("fixer")
    case.says("first").then(Turn(calls=(hand_off("debugger"),)))

    def debugs(asked: ScriptedRequest) -> Turn:
        looked = any(call.tool == "echo" for call in asked.calls)
        return Turn(calls=(hand_off("fixer") if looked else Call("echo", {"text": "bug 7"}),))

    case.says("debugger").reply(debugs)
    case.says("fixer").reply(lambda asked: f"Fixed: {everything_heard(asked)}")

    answer = case.text(swarm(first, (first, debugger), (debugger, fixer), mode=HandoffMode.ALWAYS))

    assert "bug 7" in answer
    (asked,) = case.asked("fixer")
    assert [call.tool for call in asked.calls] == ["handoff_conversation", "echo", "handoff_conversation"]
    assert case.asked("first")[0].tools == ("handoff_conversation",)
    assert sorted(case.asked("debugger")[0].tools) == ["echo", "handoff_conversation"]
    assert asked.tools == ()


def test_a_conversation_that_goes_to_and_fro_ends_at_the_groups_limit(case: Case) -> None:
    ping, pong = case.agents("ping", "pong")
    case.says("ping").reply(lambda asked: Turn(text="ping says", calls=(hand_off("pong"),)))
    case.says("pong").reply(lambda asked: Turn(text="pong says", calls=(hand_off("ping"),)))
    handle = case.launch(swarm(ping, (ping, pong), (pong, ping)))

    result = case.ended(handle)

    assert result.terminal_state is SubagentState.INTERRUPTED
    assert result.error_classification is ErrorClassification.MAX_ITERATIONS
    assert result.error_message is not None
    assert "max_handoffs" in result.error_message
    assert result.summary in {"ping says", "pong says"}
    limit = 20
    events = [event for event in case.lifecycle.events(handle) if event.type is EventType.RUN_HANDED_OFF]
    assert len(events) == limit


def test_after_a_handoff_a_message_to_the_own_caller_is_still_refused(case: Case) -> None:
    one, two, three = case.agents("one", "two", "three")
    case.says("one").then(Turn(calls=(hand_off("three"),)))
    three_says = case.says("three")
    three_says.reply(
        lambda asked: "${results}" if len(asked.results) > 1 else Turn(calls=(send("two", "Hi"),))
    )
    case.says("two").then(Turn(calls=(send("three", "What?"),))).then("two: ${results}")

    answer = case.text(swarm(one, (one, three), (three, two), (two, three)))

    assert "two: [REFUSED]" in answer
