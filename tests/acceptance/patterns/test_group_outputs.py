"""What a group and its members hand back where outputs are declared."""

from __future__ import annotations

import json

import pytest
from pyagentspec.property import IntegerProperty, StringProperty
from tests.acceptance.patterns.groups import Case, hand_off, managed, send, swarm

from retinue.contract import ErrorClassification, SubagentState
from retinue.testing import Call, Turn

PRICE = IntegerProperty(title="price")
NAME = StringProperty(title="name")


def submit(**values: object) -> Call:
    return Call("submit_result", values)


def test_a_workers_outputs_are_its_reply_and_not_the_end_of_the_group(case: Case) -> None:
    boss, clerk = case.agent("boss"), case.agent("clerk", outputs=[PRICE, NAME])
    case.says("boss").then(Turn(calls=(send("clerk", "Price?"),))).then("Got ${results}")
    case.says("clerk").then(Turn(calls=(submit(price=19, name="lamp"),)))

    answer = case.text(managed(boss, clerk))

    assert json.loads(answer.removeprefix("Got ")) == {"price": 19, "name": "lamp"}


def test_a_worker_that_must_not_ask_finishes_into_its_managers_call(case: Case) -> None:
    boss, clerk = case.agent("boss"), case.agent("clerk", human_in_the_loop=False)
    case.says("boss").then(Turn(calls=(send("clerk", "Do it"),))).then("Got ${results}")
    case.says("clerk").then("Done.")

    assert case.text(managed(boss, clerk)) == "Got Done."


def test_a_groups_outputs_are_the_payload_of_its_run(case: Case) -> None:
    boss, clerk = case.agents("boss", "clerk")
    case.says("boss").then(Turn(calls=(send("clerk", "Price?"),))).then(Turn(calls=(submit(price=19),)))
    case.says("clerk").then("19")

    result = case.run(managed(boss, clerk, outputs=[PRICE]))

    assert result.terminal_state is SubagentState.SUCCEEDED
    assert result.structured_payload == {"price": 19}


def test_an_answer_that_does_not_fit_is_corrected_once(case: Case) -> None:
    first, clerk = case.agents("first", "clerk")
    case.says("first").then("It costs 19.").then('{"price": 19}')

    result = case.run(swarm(first, (first, clerk), outputs=[PRICE]))

    assert result.structured_payload == {"price": 19}
    assert len(case.asked("first")) == 2


def test_an_answer_that_does_not_fit_twice_fails_with_its_text(case: Case) -> None:
    boss, clerk = case.agents("boss", "clerk")
    case.says("boss").then("It costs 19.").then("Nineteen!").then("never asked")

    result = case.run(managed(boss, clerk, outputs=[PRICE]))

    assert result.terminal_state is SubagentState.FAILED
    assert result.error_classification is ErrorClassification.OUTPUT_INVALID
    assert len(case.asked("boss")) == 2


def test_outputs_of_a_member_of_a_swarm_are_its_reply_too(case: Case) -> None:
    first, clerk = case.agent("first"), case.agent("clerk", outputs=[PRICE])
    case.says("first").then(Turn(calls=(send("clerk", "Price?"),))).then("Got ${results}")
    case.says("clerk").then(Turn(calls=(submit(price=19),)))

    assert json.loads(case.text(swarm(first, (first, clerk))).removeprefix("Got ")) == {"price": 19}


@pytest.mark.parametrize("answer", ['{"price": 19}', '```json\n{"price": 19}\n```'])
def test_whoever_has_the_conversation_owes_the_groups_outputs_and_may_answer_in_json(
    case: Case, answer: str
) -> None:
    first = case.agent("first", human_in_the_loop=False)
    expert = case.agent("expert", human_in_the_loop=False)
    case.says("first").then(Turn(calls=(hand_off("expert"),)))
    case.says("expert").reply(lambda asked: answer)

    result = case.run(swarm(first, (first, expert), outputs=[PRICE]))

    assert result.terminal_state is SubagentState.SUCCEEDED, result.error_message
    assert result.structured_payload == {"price": 19}
    assert "submit_result" in case.asked("expert")[0].tools
    assert "Nobody answers questions here" in case.asked("expert")[0].system


def test_what_else_the_owner_asks_for_beside_its_result_is_done_first(case: Case) -> None:
    boss, clerk = case.agents("boss", "clerk")
    case.says("boss").then(Turn(calls=(submit(price=19), send("clerk", "Hi"))))
    case.says("clerk").then("hello")

    result = case.run(managed(boss, clerk, outputs=[PRICE]))

    assert result.structured_payload == {"price": 19}
    assert len(case.asked("clerk")) == 1
