"""Which script, turn and fault answer a request."""

from typing import Any

import pytest

from retinue.testing.book import ScriptBook, Selection
from retinue.testing.faults import ErrorReply, overloaded, rate_limited, server_error
from retinue.testing.request import Api, ScriptedRequest, read_request
from retinue.testing.scripts import (
    Call,
    CountedFault,
    FaultScope,
    Match,
    Script,
    ScriptError,
    Turn,
    TurnCount,
)


def ask(system: str, *turns: str, user: str = "hello", model: str = "m") -> ScriptedRequest:
    """A request in whose history the assistant has already said `turns`."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": system},
        {"role": "user", "content": user},
        *({"role": "assistant", "content": text} for text in turns),
    ]
    return read_request(Api.CHAT_COMPLETIONS, {"model": model, "messages": messages}, {})


def book(*agents: str) -> ScriptBook:
    made = ScriptBook()
    for agent in agents:
        made.add(Script(agent).say(f"I am {agent}"), agent=agent)
    return made


@pytest.mark.parametrize(
    ("system", "agent"),
    [
        ("You are researcher.", "researcher"),
        ("You are the 'researcher'. You may call writer.", "researcher"),
        ("Roster: writer, researcher. You are researcher", "researcher"),
        ("researcher works for writer", "researcher"),
        ("You are researcher-2", "researcher-2"),
        ("You are a clerk", None),
        ("prewriter", None),
    ],
)
def test_the_system_prompt_tells_the_agent(system: str, agent: str | None) -> None:
    assert book("writer", "researcher", "researcher-2").agent_of(system) == agent


def test_an_agent_added_later_is_recognised_in_a_prompt_seen_before() -> None:
    some = book("writer")
    assert some.agent_of("You are researcher") is None
    some.add(Script("researcher").say("x"), agent="researcher")
    assert some.agent_of("You are researcher") == "researcher"


def test_the_turn_follows_from_the_history_and_repeats_with_it() -> None:
    some = ScriptBook()
    some.add(Script("a").say("one").then("two"), agent="a")
    assert [some.select(ask("You are a")).reply.text for _ in range(2)] == ["one", "one"]
    assert some.select(ask("You are a", "one")).reply.text == "two"


def test_a_request_past_the_end_is_a_problem_that_names_the_mend() -> None:
    selection = book("a").select(ask("You are a", "I am a"))
    assert isinstance(selection.fault, ErrorReply)
    assert (selection.fault.status, selection.fault.code) == (400, "script_error")
    assert selection.problem is not None
    assert "repeat_last" in selection.problem


def test_the_last_turn_repeats_if_asked() -> None:
    some = ScriptBook()
    some.add(Script("a").say("one").then("two").repeat_last(), agent="a")
    assert some.select(ask("You are a", "1", "2", "3", "4")).reply.text == "two"


def test_a_script_may_start_anew_with_each_user_message() -> None:
    some = ScriptBook()
    some.add(Script("a", count=TurnCount.SINCE_USER).say("one"), agent="a")
    messages = [
        {"role": "system", "content": "You are a"},
        {"role": "assistant", "content": "one"},
        {"role": "user", "content": "more"},
    ]
    request = read_request(Api.CHAT_COMPLETIONS, {"model": "m", "messages": messages}, {})
    assert some.select(request).reply.text == "one"


def test_an_agents_script_with_a_condition_comes_before_the_one_without() -> None:
    some = book("a")
    some.add(Script("a", when=Match(user_contains="Germany")).say("German"), agent="a")
    some.add(Script("rest", when=Match()).say("rest"), agent=None)
    assert some.select(ask("You are a", user="in Germany")).reply.text == "German"
    assert some.select(ask("You are a")).reply.text == "I am a"
    assert some.select(ask("You are b")).script == "rest"


def test_a_request_without_a_script_is_a_problem_that_names_the_scripts() -> None:
    selection = book("b", "a").select(ask("You are c"))
    assert selection.script is None
    assert selection.problem is not None
    assert selection.problem.startswith("no script for this request; scripts exist for a, b. ")
    assert '"You are <name>", or its name, in the system prompt' in selection.problem


@pytest.mark.parametrize(
    ("match", "holds"),
    [
        (Match(), True),
        (Match(model="m"), True),
        (Match(model="n"), False),
        (Match(system_contains="are a"), True),
        (Match(user_contains="bye"), False),
        (Match(turn=1), True),
        (Match(turn=0), False),
        (Match(has_result_of="look"), False),
        (Match(result_contains="x"), False),
    ],
)
def test_every_given_field_of_a_match_must_hold(match: Match, holds: bool) -> None:
    assert match(ask("You are a", "one")) is holds


def test_a_match_sees_tool_results() -> None:
    messages = [
        {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "look", "arguments": ""}}]},
        {"role": "tool", "tool_call_id": "c", "content": "a fox"},
    ]
    request = read_request(Api.CHAT_COMPLETIONS, {"model": "m", "messages": messages}, {})
    assert Match(has_result_of="look", result_contains="fox")(request)
    assert not Match(has_result_of="hear")(request)
    assert not Match(result_contains="dog")(request)


def faults_met(some: ScriptBook, request: ScriptedRequest, times: int) -> list[str | None]:
    return [some.select(request).fault_name for _ in range(times)]


def test_a_fault_strikes_the_first_n_requests_of_its_turn() -> None:
    some = ScriptBook()
    some.add(Script("a").say("one").fault(rate_limited(), times=2).then("two"), agent="a")
    assert faults_met(some, ask("You are a"), 3) == ["rate_limit_exceeded", "rate_limit_exceeded", None]
    assert faults_met(some, ask("You are a", "one"), 1) == [None]


def test_faults_of_server_script_and_turn_strike_in_this_order() -> None:
    some = ScriptBook()
    some.add_fault(CountedFault(overloaded()))
    some.add(Script("a").say("one").fault(rate_limited()).fault_any_turn(server_error()), agent="a")
    assert faults_met(some, ask("You are a"), 4) == [
        "overloaded",
        "server_error",
        "rate_limit_exceeded",
        None,
    ]


def test_a_fault_without_a_count_never_ends() -> None:
    some = ScriptBook()
    some.add(Script("a").say("one").fault(overloaded(), times=None), agent="a")
    assert faults_met(some, ask("You are a"), 3) == ["overloaded"] * 3


def test_a_fault_may_be_counted_for_each_history() -> None:
    some = ScriptBook()
    some.add(Script("a").say("one").fault(overloaded(), scope=FaultScope.EACH_HISTORY), agent="a")
    assert faults_met(some, ask("You are a", user="x"), 2) == ["overloaded", None]
    assert faults_met(some, ask("You are a", user="y"), 2) == ["overloaded", None]


def test_a_refused_history_uses_no_fault_up() -> None:
    some = ScriptBook()
    some.add(Script("a").say("one").fault(overloaded()), agent="a")
    refused = some.refuse(ask("You are a"), "broken")
    assert (refused.script, refused.problem, refused.fault_name) == ("a", "broken", None)
    assert faults_met(some, ask("You are a"), 1) == ["overloaded"]


def test_a_function_computes_a_turn_from_the_request() -> None:
    some = ScriptBook()
    some.add(Script("a").reply(lambda request: f"turn {request.turn}"), agent="a")
    assert some.select(ask("You are a", "x", "y")).reply.text == "turn 2"


def test_a_function_that_fails_is_a_problem_not_a_crash() -> None:
    def fails(_: ScriptedRequest) -> str:
        raise KeyError("oops")

    some = ScriptBook()
    some.add(Script("a").reply(fails), agent="a")
    selection = some.select(ask("You are a"))
    assert selection.problem == "script_function_failed: KeyError('oops')"


def selected(turn: Turn, request: ScriptedRequest) -> Selection:
    some = ScriptBook()
    some.add(Script("a").then(turn).repeat_last(), agent="a")
    return some.select(request)


def test_placeholders_are_filled_in_texts_and_nested_arguments() -> None:
    arguments = {"task": "do ${user}", "list": ["${turn}", 7], "deep": {"model": "${model}"}}
    reply = selected(Turn(text="${other} $5 ${turn}", calls=(Call("t", arguments),)), ask("You are a")).reply
    assert reply.text == "${other} $5 0"
    assert reply.calls[0].arguments == {"task": "do hello", "list": ["0", 7], "deep": {"model": "m"}}


def test_call_ids_are_stable_and_differ_between_calls_turns_and_tasks() -> None:
    turn = Turn(calls=(Call("t"), Call("t"), Call("t", id="mine")))
    requests = [ask("You are a"), ask("You are a", "1"), ask("You are a", user="other")]
    ids = [[call.id for call in selected(turn, request).reply.calls] for request in requests]
    again = [[call.id for call in selected(turn, request).reply.calls] for request in requests]
    assert ids == again
    assert all(row[2] == "mine" for row in ids)
    assert len({call_id for row in ids for call_id in row[:2]}) == 6


def test_a_turn_from_a_function_cannot_be_built_further() -> None:
    with pytest.raises(ScriptError, match="then"):
        Script("a").then(lambda _: "x").say("y")


def test_calls_in_a_row_belong_to_one_turn() -> None:
    script = Script("a").call("x").call("y", {"n": 1}).then().call("z").then("end")
    turns = [step.reply for step in script.steps if isinstance(step.reply, Turn)]
    assert [[call.tool for call in turn.calls] for turn in turns] == [["x", "y"], ["z"], []]
    assert turns[2].text == "end"
