"""Models that ask the user or the model above them, and what decisions are worth, on two worker processes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.acceptance.control.asking_scripts import (
    answer,
    ask,
    asked,
    let_expire,
    ran,
    script,
    start,
    tree_of_three,
    turns,
    wait,
)
from tests.acceptance.run_rig import RunRig, of_kind, run_rig

from retinue.client import SubagentLifecycle
from retinue.contract import (
    Audience,
    DecisionRefusal,
    EventType,
    Phase,
    RequestKind,
    SubagentState,
)
from retinue.testing import Call, Turn

PIN = "pin-4711-secret"


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    with run_rig(tmp_path_factory.mktemp("asking"), agents="control.asking_agents") as rig:
        yield rig


@pytest.fixture
def lifecycle(rig: RunRig, request: pytest.FixtureRequest) -> SubagentLifecycle:
    """A client, beside two workers."""
    rig.keep_workers(2, concurrency=4)
    return rig.lifecycle(request.node.name[:100])


def replace_workers(rig: RunRig) -> None:
    """Kills every worker and starts two new ones."""
    for worker in rig.workers:
        if worker.running:
            worker.kill()
    rig.keep_workers(2, concurrency=4)


# The user.


def test_a_model_asks_the_user_and_goes_on_with_the_answer(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    script(rig, "clerk", "which").then(Turn(calls=(ask("ask_user", "Red or blue?"),))).then("${results}")
    handle = lifecycle.launch(agent="clerk", goal="which")

    [request] = asked(rig, lifecycle, handle)
    assert (request.kind, request.tool, request.arguments, request.audience) == (
        RequestKind.INPUT, "ask_user", {"question": "Red or blue?"}, Audience.USER,
    )  # fmt: skip
    assert lifecycle.status(handle).phase is Phase.WAITING_INPUT
    assert lifecycle.approve(handle, request.request_id).reason is DecisionRefusal.WRONG_KIND
    assert lifecycle.answer(handle, request.request_id, "Blue, please.").accepted
    assert rig.result(lifecycle, handle).summary == "Blue, please."
    [event] = of_kind(list(lifecycle.events(handle)), EventType.INPUT_REQUESTED)
    assert (event.data["tool"], event.data["arguments"], event.data["audience"]) == (
        "ask_user", {"question": "Red or blue?"}, "user",
    )  # fmt: skip


def test_a_question_that_nobody_answers_is_denied_as_expired(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "clerk", "expire").then(Turn(calls=(ask("ask_user", "Anybody?"),))).then("${results}")
    handle = lifecycle.launch(agent="clerk", goal="expire")
    [request] = asked(rig, lifecycle, handle)
    let_expire(rig, request)
    result = rig.result(lifecycle, handle)

    assert "[DENIED]" in str(result.summary)
    assert "expired" in str(result.summary)
    [event] = of_kind(list(lifecycle.events(handle)), EventType.INPUT_ANSWERED)
    assert (event.data["decision"], event.data["reason"]) == ("expired", "expired")
    assert not lifecycle.answer(handle, request.request_id, "Yes.").accepted


def test_who_may_not_ask_asks_nobody_and_neither_does_a_blank_question(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "mute", "tries").then(Turn(calls=(ask("ask_user", "May I?"),))).then("${results}")
    script(rig, "clerk", "blank").then(Turn(calls=(ask("ask_user", "  "), Call("ask_parent")))).then(
        "${results}"
    )
    mute, clerk = (
        lifecycle.launch(agent=agent, goal=goal) for agent, goal in (("mute", "tries"), ("clerk", "blank"))
    )

    assert str(rig.result(lifecycle, mute).summary).startswith("[ERROR]")
    assert str(rig.result(lifecycle, clerk).summary).count("'question'") == 2
    for handle in (mute, clerk):
        assert of_kind(list(lifecycle.events(handle)), EventType.INPUT_REQUESTED) == []


# The parent.


@pytest.mark.parametrize("agent", ["clerk", "chief"])
def test_a_question_to_a_parent_that_cannot_speak_is_the_users(
    rig: RunRig, lifecycle: SubagentLifecycle, agent: str
) -> None:
    """An application that launched the run, and a model that waits for the answer of its call."""
    word = f"nobody-{agent}"
    tree_of_three(rig, word, ask("ask_parent", "Which?"))
    handle = lifecycle.launch(agent=agent, goal=word)

    [request] = asked(rig, lifecycle, handle)
    assert (request.tool, request.audience) == ("ask_parent", Audience.USER)
    assert lifecycle.answer(handle, request.request_id, "That one.").accepted
    assert "That one." in str(rig.result(lifecycle, handle).summary)
    assert ran(rig, request.run_id, "count") == 1


def test_a_model_above_is_told_of_a_question_while_it_waits_and_answers_it(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    told: list[Any] = []

    def answers(results: Any) -> Turn:
        told.extend(results)
        return answer(results[0]["asks"][0]["question_id"], "The left one.")

    turns(rig, "lead", "left?", lambda _: start("left?"), wait, answers, wait, lambda last: last[0]["result"])
    clerk = script(rig, "clerk", "left?").then(Turn(calls=(ask("ask_parent", "Left or right?"),)))
    clerk.then("I took: ${results}")
    handle = lifecycle.launch(agent="lead", goal="left?")
    result = rig.result(lifecycle, handle)

    assert (result.terminal_state, result.summary) == (SubagentState.SUCCEEDED, "I took: The left one.")
    [child] = told
    assert (child["ended"], child["asks"][0]["question"]) == (False, "Left or right?")
    log = list(lifecycle.events(handle))
    [event] = of_kind(log, EventType.INPUT_REQUESTED)
    assert event.data["audience"] == "parent"
    [event] = of_kind(log, EventType.INPUT_ANSWERED)
    assert event.data["decision"] == "answered"


def test_a_question_outlives_all_workers_and_no_human_is_called_for_it(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    """The model above is at work itself when it is asked, and looks later."""
    ids: list[str] = []

    def look(result: Any) -> Turn:
        ids.append(result["id"])
        return Turn(calls=(Call("check_agent", {"id": result["id"]}),), gate="look")

    def answers(result: Any) -> Turn:
        return answer(result["asks"][0]["question_id"], "Go on.")

    begin = Turn(calls=(Call("count"), *start("look").calls))
    turns(rig, "lead", "look", lambda _: begin, look, answers, wait, lambda last: last[0]["result"])
    clerk = script(rig, "clerk", "look").call("count", {}).then(Turn(calls=(ask("ask_parent", "Sure?"),)))
    clerk.then("told: ${results}")
    handle = lifecycle.launch(agent="lead", goal="look", timeout_seconds=600)
    rig.wait_until(lambda: len(lifecycle.pending(handle)) == 1, "the question")

    [request] = lifecycle.pending(handle)
    assert (request.audience, request.tool, request.agent) == (Audience.PARENT, "ask_parent", "clerk")
    assert lifecycle.wait(handle, timeout_seconds=0.2, until="asked").timed_out
    first = lifecycle.status(handle).limits["deadline_at"]
    replace_workers(rig)
    assert lifecycle.status(handle).limits["deadline_at"] == first, "time goes on: nobody human is awaited"
    rig.model.release("look")
    result = rig.result(lifecycle, handle)

    assert result.summary == "told: Go on."
    assert set(ids) == {request.run_id}
    assert [ran(rig, run, "count") for run in (handle.subagent_id, request.run_id)] == [1, 1]
    assert lifecycle.answer(handle, request.request_id, "Late.").reason is DecisionRefusal.ENDED


def test_a_human_may_answer_in_the_place_of_the_model_above(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    turns(
        rig, "lead", "instead", lambda _: start("instead"),
        lambda result: Turn(calls=(Call("check_agent", {"id": result["id"]}),), gate="instead"),
        lambda result: answer(f"{result['id']}/1:0", "Mine."),
        lambda refused: Turn(text=json.dumps(refused)),
    )  # fmt: skip
    script(rig, "clerk", "instead").then(Turn(calls=(ask("ask_parent", "Sure?"),))).then("${results}")
    handle = lifecycle.launch(agent="lead", goal="instead")
    rig.wait_until(lambda: len(lifecycle.pending(handle)) == 1, "the question")
    [request] = lifecycle.pending(handle)

    assert lifecycle.answer(handle, request.request_id, "The human's.").accepted
    rig.wait_for_event(lifecycle, handle, EventType.RUN_FINISHED)
    rig.model.release("instead")
    assert "[REFUSED]" in str(rig.result(lifecycle, handle).summary)
    child = rig.handle_of(request.run_id)
    assert rig.result(lifecycle, child).summary == "The human's."


def test_a_model_does_not_answer_what_a_human_is_asked(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    heard: list[str] = []

    def goes_on(refused: Any) -> Turn:
        heard.append(str(refused))
        return wait()

    turns(
        rig, "lead", "human's", lambda _: start("human's"),
        lambda result: Turn(calls=answer(f"{result['id']}/1:0", "Yes.").calls, gate="human's"),
        goes_on,
        lambda last: last[0]["result"],
    )  # fmt: skip
    script(rig, "clerk", "human's").then(Turn(calls=(ask("ask_user", "Sure?"),))).then("${results}")
    handle = lifecycle.launch(agent="lead", goal="human's")
    [request] = asked(rig, lifecycle, handle)
    rig.model.release("human's")
    rig.wait_until(lambda: bool(heard), "the refusal")

    assert heard[0] == "[REFUSED] The question was not answered: it is for a human to answer."
    assert lifecycle.answer(handle, request.request_id, "The human's.").accepted
    assert rig.result(lifecycle, handle).summary == "The human's."


def test_what_a_model_was_asked_is_the_users_once_it_is_interrupted(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    turns(rig, "lead", "orphan", lambda _: start("orphan"), lambda _: Turn(text="never", gate="orphan"))
    script(rig, "clerk", "orphan").then(Turn(calls=(ask("ask_parent", "Still there?"),))).then("${results}")
    handle = lifecycle.launch(agent="lead", goal="orphan")
    rig.wait_until(lambda: len(lifecycle.pending(handle)) == 1, "the question")
    [request] = lifecycle.pending(handle)
    child = rig.handle_of(request.run_id)
    assert request.audience is Audience.PARENT

    assert lifecycle.interrupt(handle).accepted
    assert rig.result(lifecycle, handle).terminal_state is SubagentState.INTERRUPTED
    [again] = asked(rig, lifecycle, child)
    assert (again.request_id, again.audience) == (request.request_id, Audience.USER)
    events = of_kind(list(lifecycle.events(child)), EventType.INPUT_REQUESTED)
    assert [event.data["audience"] for event in events] == ["parent", "user"]
    assert lifecycle.answer(child, request.request_id, "Yes, me.").accepted
    assert rig.result(lifecycle, child).summary == "Yes, me."
    rig.model.release("orphan")


# What decisions are worth.


def test_an_approval_in_a_grandchild_after_a_counted_tool_with_all_workers_restarted(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    tree_of_three(rig, "restarted", Call("open_safe", {"shelf": 1, "pin": PIN}))
    handle = lifecycle.launch(agent="chief", goal="restarted")
    [request] = asked(rig, lifecycle, handle)
    assert ran(rig, request.run_id, "count") == 1

    replace_workers(rig)
    assert [again.request_id for again in lifecycle.pending(handle)] == [request.request_id]
    assert lifecycle.approve(handle, request.request_id).accepted
    result = rig.result(lifecycle, handle)

    assert f"open {len(PIN)}" in str(result.summary)
    assert ran(rig, request.run_id, "count") == 1
    assert ran(rig, request.run_id, "open_safe 1") == 1


@pytest.mark.parametrize("attempt", range(5))
def test_of_many_decisions_at_once_one_counts_and_the_call_runs_at_most_once(
    rig: RunRig, lifecycle: SubagentLifecycle, attempt: int
) -> None:
    word = f"at-once-{attempt}-"
    tree_of_three(rig, word, Call("open_safe", {"shelf": 2, "pin": PIN}))
    handle = lifecycle.launch(agent="chief", goal=word)
    [request] = asked(rig, lifecycle, handle)

    def decide(number: int) -> tuple[str, bool]:
        if number % 2:
            return "approved", lifecycle.approve(handle, request.request_id).accepted
        return "denied", lifecycle.deny(handle, request.request_id).accepted

    with ThreadPoolExecutor(12) as threads:
        decisions = list(threads.map(decide, range(24)))
    rig.result(lifecycle, handle)

    [won] = [word for word, accepted in decisions if accepted]
    [event] = of_kind(list(lifecycle.events(handle)), EventType.APPROVAL_DECIDED)
    assert event.data["decision"] == won
    assert ran(rig, request.run_id, "open_safe 2") == (won == "approved")


@pytest.mark.parametrize("restarted", [False, True])
def test_after_a_cancel_no_decision_in_a_grandchild_counts(
    rig: RunRig, lifecycle: SubagentLifecycle, restarted: bool
) -> None:
    word = f"cancelled-{restarted}"
    tree_of_three(rig, word, Call("open_safe", {"shelf": 3, "pin": PIN}), ask("ask_user", "Which?"))
    handle = lifecycle.launch(agent="chief", goal=word)
    requests = {request.tool: request for request in asked(rig, lifecycle, handle, 2)}
    safe, question = requests["open_safe"], requests["ask_user"]

    assert lifecycle.cancel(handle).accepted
    if restarted:
        replace_workers(rig)
    refused = [
        lifecycle.approve(handle, safe.request_id),
        lifecycle.deny(handle, safe.request_id),
        lifecycle.answer(handle, question.request_id, "That."),
    ]
    assert not any(each.accepted for each in refused)
    assert {each.reason for each in refused} <= {DecisionRefusal.CANCELLED, DecisionRefusal.ENDED}
    assert rig.result(lifecycle, handle).terminal_state is SubagentState.CANCELLED
    assert lifecycle.pending(handle) == ()
    assert ran(rig, safe.run_id, "open_safe 3") == 0
    log = list(lifecycle.events(handle))
    kinds = Counter(
        event.data["decision"] for event in log if event.type.value.endswith(("decided", "answered"))
    )
    assert kinds == {"withdrawn": 2}


def test_a_redacted_argument_is_shown_nowhere_but_to_the_tool(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    secret = f"{PIN}-redacted"
    tree_of_three(rig, "redacted", Call("open_safe", {"shelf": 4, "pin": secret}))
    handle = lifecycle.launch(agent="chief", goal="redacted")
    [request] = asked(rig, lifecycle, handle)
    assert request.arguments == {"shelf": 4, "pin": "[redacted]"}
    child = rig.handle_of(request.run_id)
    seen = [str(lifecycle.status(each).to_dict()) for each in (handle, child)]
    assert lifecycle.approve(handle, request.request_id).accepted
    assert f"open {len(secret)}" in str(rig.result(lifecycle, handle).summary)

    seen += [str(event.to_dict()) for event in lifecycle.events(handle)]
    seen += [rig.trace(f"{worker.name}.log").read_text() for worker in rig.workers]
    assert not [text for text in seen if secret in text]
