"""Members that ask a human: approvals and the caller's own tools, wherever in a group they come up."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyagentspec.property import StringProperty
from pyagentspec.tools import ClientTool
from tests.acceptance.patterns.groups import (
    ECHO,
    WAIT_S,
    Case,
    hand_off,
    managed,
    results_of,
    send,
    server_tool,
    swarm,
    users_of,
)
from tests.acceptance.run_rig import RunRig, run_rig

from retinue.client import SubagentHandle
from retinue.contract import EventType, PendingRequest, RequestKind, SubagentState
from retinue.testing import Call, Turn

GUARDED = server_tool("echo", StringProperty(title="text"), requires_confirmation=True)
TOWN = ClientTool(name="town", description="Asks the user.", inputs=[StringProperty(title="of")])
DENIED = "[DENIED] A human refused this call. Reason: too much"


def guarded(text: str) -> Call:
    return Call("echo", {"text": text})


def town(of: str) -> Call:
    return Call("town", {"of": of})


def asked(case: Case, handle: SubagentHandle, count: int = 1) -> list[PendingRequest]:
    """What the group asks, once it asks so much."""
    deadline = time.monotonic() + WAIT_S
    while len(pending := list(case.lifecycle.pending(handle))) < count:
        waited = case.lifecycle.wait(handle, timeout_seconds=WAIT_S, until="asked")
        assert not waited.completed, case.lifecycle.result(handle)
        assert time.monotonic() < deadline, pending
        time.sleep(0.02)
    assert len(pending) == count
    return sorted(pending, key=lambda request: str(request.arguments))


def replace_workers(rig: RunRig) -> None:
    """Kills every worker and starts another."""
    for worker in rig.workers:
        if worker.running:
            worker.kill()
    rig.keep_workers(1, concurrency=1)


@pytest.mark.parametrize(("approved", "told"), [(True, "paid"), (False, DENIED)])
@pytest.mark.parametrize("who", ["boss", "clerk"])
def test_a_tool_that_needs_an_approval_on_the_manager_and_on_a_worker(
    case: Case, who: str, approved: bool, told: str
) -> None:
    tools = {who: [GUARDED]}
    boss = case.agent("boss", tools=tools.get("boss", []))
    clerk = case.agent("clerk", tools=tools.get("clerk", []))
    first = guarded("paid") if who == "boss" else send("clerk", "Pay")
    case.says("boss").then(Turn(calls=(first,))).then("boss: ${results}")
    case.says("clerk").then(Turn(calls=(guarded("paid"),))).then("${results}")
    handle = case.launch(managed(boss, clerk))

    [request] = asked(case, handle)
    assert (request.kind, request.tool, request.arguments) == (
        RequestKind.APPROVAL, "echo", {"text": "paid"},
    )  # fmt: skip
    if approved:
        assert case.lifecycle.approve(handle, request.request_id).accepted
    else:
        assert case.lifecycle.deny(handle, request.request_id, "too much").accepted

    assert case.ended(handle).summary == f"boss: {told}"


@pytest.mark.parametrize("who", ["boss", "clerk"])
@pytest.mark.parametrize("confirmed", [False, True])
def test_the_callers_own_tool_on_the_manager_and_on_a_worker_is_one_question(
    case: Case, who: str, confirmed: bool
) -> None:
    tool = TOWN.model_copy(update={"requires_confirmation": confirmed})
    tools = {who: [tool]}
    boss = case.agent("boss", tools=tools.get("boss", []))
    clerk = case.agent("clerk", tools=tools.get("clerk", []))
    first = town("Ada") if who == "boss" else send("clerk", "Where?")
    case.says("boss").then(Turn(calls=(first,))).then("boss: ${results}")
    case.says("clerk").then(Turn(calls=(town("Ada"),))).then("${results}")
    handle = case.launch(managed(boss, clerk))

    [request] = asked(case, handle)
    assert (request.kind, request.tool, request.arguments) == (RequestKind.INPUT, "town", {"of": "Ada"})
    assert case.lifecycle.answer(handle, request.request_id, "Ulm").accepted

    assert case.ended(handle).summary == "boss: Ulm"
    events = [event.type for event in case.lifecycle.events(handle)]
    assert events.count(EventType.INPUT_REQUESTED) == 1
    assert EventType.APPROVAL_REQUESTED not in events


def test_a_question_deep_in_one_of_two_messages_leaves_the_other_alone(case: Case) -> None:
    boss, left, right = case.agent("boss"), case.agent("left", tools=[TOWN]), case.agent("right")
    case.says("boss").then(Turn(calls=(send("left", "1"), send("right", "2")))).then("${results}")
    case.says("left").then(Turn(calls=(town("Ada"),))).then("left in ${results}")
    case.says("right").then("right")
    handle = case.launch(managed(boss, left, right))

    [request] = asked(case, handle)
    assert request.agent == "left"
    assert case.lifecycle.answer(handle, request.request_id, "Ulm").accepted

    assert case.ended(handle).summary == "left in Ulm; right"
    assert len(case.asked("right")) == 1


def test_a_question_and_a_message_in_one_turn_are_answered_in_request_order(case: Case) -> None:
    boss, clerk = case.agent("boss", tools=[TOWN, ECHO]), case.agent("clerk")
    calls = (town("Ada"), send("clerk", "Hi"), Call("echo", {"text": "tool"}))
    case.says("boss").then(Turn(calls=calls)).then("${results}")
    case.says("clerk").then("hello")
    handle = case.launch(managed(boss, clerk))

    [request] = asked(case, handle)
    assert request.kind is RequestKind.INPUT
    assert case.lifecycle.answer(handle, request.request_id, "Ulm").accepted

    assert case.ended(handle).summary == "Ulm; hello; tool"


def test_questions_of_one_turn_are_asked_together_and_each_answer_finds_its_call(case: Case) -> None:
    boss, clerk = case.agent("boss", tools=[TOWN]), case.agent("clerk", tools=[TOWN])
    calls = (town("Ada"), send("clerk", "Where?"), town("Bob"))
    case.says("boss").then(Turn(calls=calls)).then("${results}")
    case.says("clerk").then(Turn(calls=(town("Cid"),))).then("Cid in ${results}")
    handle = case.launch(managed(boss, clerk))

    ada, bob, cid = asked(case, handle, 3)
    for request, answer in ((cid, "Bonn"), (bob, "Kiel"), (ada, "Ulm")):
        assert case.lifecycle.answer(handle, request.request_id, answer).accepted

    assert case.ended(handle).summary == "Ulm; Cid in Bonn; Kiel"


def test_a_handoff_waits_for_the_question_before_it(case: Case) -> None:
    first, expert = case.agent("first", tools=[TOWN]), case.agent("expert")
    case.says("first").then(Turn(calls=(town("Ada"), hand_off("expert"), town("Bob"))))
    case.says("expert").reply(lambda request: results_of(request)[0])
    handle = case.launch(swarm(first, (first, expert)))

    [request] = asked(case, handle)
    assert request.arguments == {"of": "Ada"}
    assert not case.asked("expert")
    assert case.lifecycle.answer(handle, request.request_id, "Ulm").accepted

    assert case.ended(handle).summary == "Ulm"


def test_the_receiver_of_a_conversation_may_ask_too(case: Case) -> None:
    first, expert = case.agent("first"), case.agent("expert", tools=[GUARDED])
    case.says("first").then(Turn(calls=(hand_off("expert"),)))
    case.says("expert").reply(
        lambda request: results_of(request)[-1] if len(request.results) > 1 else Turn(calls=(guarded("yes"),))
    )
    handle = case.launch(swarm(first, (first, expert)))

    [request] = asked(case, handle)
    assert (request.run_id, request.agent) == (handle.subagent_id, "expert")
    assert case.lifecycle.approve(handle, request.request_id).accepted

    assert case.ended(handle).summary == "yes"


def test_questions_conversations_and_pairs_outlive_every_worker(tmp_path: Path) -> None:
    with run_rig(tmp_path, agents="patterns.pattern_tools") as rig:
        rig.keep_workers(1, concurrency=1)
        case = Case("survivors", rig.model, rig.lifecycle("survivors"))
        boss, middle, clerk = case.agent("boss"), case.agent("middle"), case.agent("clerk", tools=[TOWN])
        opening = case.says("boss").then(Turn(calls=(send("team", "Where?"),))).then("${results}")
        opening.then(Turn(calls=(send("team", "Again?"),))).then("${results}")
        office = case.says("middle").then(Turn(calls=(send("clerk", "Town?"),))).then("${results}")
        office.reply(lambda request: " < ".join(users_of(request)))
        case.says("clerk").then(Turn(calls=(town("Ada"),))).then("in ${results}")
        handle = case.launch(managed(boss, managed(middle, clerk, name="team"), name="company"))

        [request] = asked(case, handle)
        replace_workers(rig)
        assert case.lifecycle.answer(handle, request.request_id, "Ulm").accepted
        result = case.ended(handle)
        assert (result.terminal_state, result.summary) == (SubagentState.SUCCEEDED, "in Ulm")
        replace_workers(rig)
        again = case.ended(case.lifecycle.continue_run(handle, "And now?"))

    assert (again.terminal_state, again.summary) == (SubagentState.SUCCEEDED, "Where? < Again?")
