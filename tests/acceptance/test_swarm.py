"""Swarms on two worker processes of one slot each: every mode, later turns of the user, a killed worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.acceptance.run_rig import RunRig, of_kind, run_rig

from retinue.broker.routes import queue_key
from retinue.contract import (
    ErrorCode,
    EventType,
    SubagentHandle,
    SubagentLifecycleError,
    SubagentState,
)
from retinue.store.scripts import script
from retinue.testing import Call, Match, ScriptedRequest, Turn
from retinue.testing.proxy import FaultProxy, Loss
from retinue.testing.scripts import Script
from retinue.worker.calls.tool_calls import OUTCOME_UNKNOWN

ALL = 1_000_000
EXPERTS = "experts"
MIXED = ("mixed front", "mixed sums")


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    """Two workers with one slot each."""
    directory: Path = tmp_path_factory.mktemp("swarm")
    with run_rig(directory, agents="swarm_agents") as rig:
        endpoint = {"url": rig.model.base_url, "api_key": "key"}
        for _ in range(2):
            rig.worker(concurrency=1, settings={"llm_configs": {"llm responses": endpoint}})
        yield rig


@pytest.fixture
def split(tmp_path: Path) -> Iterator[RunRig]:
    """No worker yet; the experts of the swarm `optional` have a queue of their own."""
    routes = {"optional sums": EXPERTS, "optional words": EXPERTS}
    with run_rig(tmp_path, agents="swarm_agents", appendonly=True, routes=routes) as rig:
        yield rig


def says(rig: RunRig, member: str, *, to: str | None = None) -> Script:
    """What the model of a member of a swarm answers, to a user who says `to` or to any."""
    return rig.model.script_where(member, Match(system_contains=f"Role: {member};", user_contains=to))


def asked(rig: RunRig, member: str) -> list[ScriptedRequest]:
    """The requests that a member's model got; each was one that a real server would take."""
    records = rig.model.requests(member)
    assert [record.problem for record in records] == [None] * len(records)
    return [record.request for record in records if record.request is not None]


def users(request: ScriptedRequest) -> list[str]:
    return [message.text for message in request.messages if message.role == "user"]


def send(recipient: str, message: str) -> Call:
    return Call("send_message", {"recipient": recipient, "message": message})


def hand_off(recipient: str) -> Call:
    return Call("handoff_conversation", {"recipient": recipient})


def note(line: str) -> Call:
    return Call("note", {"line": line})


def results(request: ScriptedRequest) -> list[str]:
    return [result.text for result in request.results]


def test_without_handoffs_the_members_answer_and_remember_each_other(rig: RunRig) -> None:
    lifecycle = rig.lifecycle("never")
    opening = (send("never sums", "2+2?"), send("never words", "Spell it."), send("never sums", "And 3+3?"))
    says(rig, "never front").then(Turn(calls=opening)).then("${results}").then(
        Turn(calls=(send("never sums", "Again?"),))
    ).then("${results}")
    says(rig, "never sums").reply(lambda request: " < ".join(users(request)))
    says(rig, "never words").then("four")

    handle = lifecycle.launch(agent="never", goal="Count.")
    result = rig.result(lifecycle, handle)

    # Replies stand in the order of the calls; messages to one member went one after the other.
    assert result.summary == "2+2?; four; 2+2? < And 3+3?"
    following = lifecycle.continue_run(handle, "Count on.")
    assert rig.result(lifecycle, following).summary == "2+2? < And 3+3? < Again?"
    assert users(asked(rig, "never front")[-1]) == ["Count.", "Count on."]


def test_an_optional_handoff_gives_the_conversation_to_a_member_who_keeps_it(rig: RunRig) -> None:
    lifecycle = rig.lifecycle("optional")
    calls = (note("before"), send("optional words", "Ready?"), hand_off("optional sums"), note("after"))
    says(rig, "optional front").then(Turn(text="One moment.", calls=calls))
    says(rig, "optional words").then("ready")
    says(rig, "optional sums").reply(lambda request: f"{len(users(request))}: {request.last_user}")

    handle = lifecycle.launch(agent="optional", goal="What is 2+2?")
    result = rig.result(lifecycle, handle)

    assert (result.summary, result.handle) == ("1: What is 2+2?", handle)
    status = lifecycle.status(handle)
    assert (status.agent, status.continues) == ("optional sums", None)
    (request,) = asked(rig, "optional sums")
    before, ready, handed_off, after = results(request)
    assert (before, ready) == ("noted before", "ready")
    assert "optional sums" in handed_off
    assert after.startswith("[CANCELLED]")
    assert [line.split()[1] for line in rig.ledger()] == ["before"]
    events = of_kind(list(lifecycle.events(handle)), EventType.RUN_HANDED_OFF)
    assert [event.data for event in events] == [{"from": "optional", "to": "optional sums"}]

    second = lifecycle.continue_run(handle, "And 3+3?", metadata={"turn": 2})
    outcome = rig.result(lifecycle, second)
    third = lifecycle.continue_run(handle, "And 4+4?")

    assert (outcome.summary, outcome.metadata) == ("2: And 3+3?", {"turn": 2})
    assert rig.result(lifecycle, third).summary == "3: And 4+4?"
    assert lifecycle.status(second).continues == handle.subagent_id
    assert lifecycle.status(second).agent == "optional sums"
    assert len(asked(rig, "optional front")) == 1


def test_handing_off_is_the_only_way_in_always_mode(rig: RunRig) -> None:
    lifecycle = rig.lifecycle("always")
    says(rig, "always front", to="Spell 2+2.").then(Turn(calls=(hand_off("always sums"),)))
    says(rig, "always sums").reply(
        lambda request: Turn(calls=(hand_off("always words") if len(request.calls) > 1 else note("4"),))
    )
    says(rig, "always words").reply(lambda request: "four")

    handle = lifecycle.launch(agent="always", goal="Spell 2+2.")

    assert rig.result(lifecycle, handle).summary == "four"
    assert [node.depth for node in lifecycle.tree(handle)] == [0]
    assert asked(rig, "always front")[0].tools == ("note", "handoff_conversation")
    (request,) = asked(rig, "always words")
    assert [call.tool for call in request.calls] == ["handoff_conversation", "note", "handoff_conversation"]


def test_members_that_speak_to_models_in_different_apis_share_a_conversation(rig: RunRig) -> None:
    lifecycle = rig.lifecycle("mixed")

    def front(request: ScriptedRequest) -> Turn | str:
        if any(call.tool == "note" for call in request.calls):
            return "; ".join(result.split(".")[0] for result in results(request))
        return Turn(text="One moment.", calls=(hand_off("mixed sums"),))

    says(rig, "mixed front").reply(front)
    says(rig, "mixed sums").reply(
        lambda request: Turn(text="Noted.", calls=(note("4"), hand_off("mixed front")))
    )

    handle = lifecycle.launch(agent="mixed", goal="What is 2+2?")

    assert rig.result(lifecycle, handle).summary == (
        "[HANDED OFF] mixed front has handed the conversation over to mixed sums; noted 4; "
        "[HANDED OFF] mixed sums has handed the conversation over to mixed front"
    )
    apis = {member: {record.api for record in rig.model.requests(member)} for member in MIXED}
    assert apis == {"mixed front": {"chat_completions"}, "mixed sums": {"responses"}}
    assert [message.text for message in asked(rig, "mixed front")[-1].messages][:2] == [
        "What is 2+2?",
        "One moment.",
    ]


def test_a_conversation_has_one_live_run_and_ends_with_its_memory(rig: RunRig) -> None:
    lifecycle = rig.lifecycle("live")
    says(rig, "always front", to="Wait.").then(Turn(text="done", gate="gate"))
    handle = lifecycle.launch(agent="always", goal="Wait.")
    rig.wait_for_event(lifecycle, handle, EventType.MODEL_STARTED)

    with pytest.raises(SubagentLifecycleError) as refused:
        lifecycle.continue_run(handle, "Meanwhile?")
    assert refused.value.code is ErrorCode.RUN_ACTIVE
    rig.model.release("gate")
    rig.result(lifecycle, handle)

    for other in (rig.lifecycle("another"), lifecycle):
        forgotten = other is lifecycle
        if forgotten:
            rig.store.delete(*rig.store.keys(f"*{handle.subagent_id}*"))
        with pytest.raises(SubagentLifecycleError) as unknown:
            other.continue_run(handle, "Hello?")
        assert unknown.value.code is ErrorCode.UNKNOWN_HANDLE


def _handed_off(rig: RunRig) -> SubagentHandle:
    """A run that was handed off to an expert whom no worker serves yet, and whose worker was killed then."""
    says(rig, "optional front").then(Turn(calls=(note("before"), hand_off("optional sums"), note("after"))))
    says(rig, "optional sums").reply(lambda request: f"{len(request.results)}: {request.last_user}")
    worker = rig.worker(concurrency=1, queues=["retinue"])
    lifecycle = rig.lifecycle("killed")
    handle = lifecycle.launch(agent="optional", goal="What is 2+2?")
    rig.wait_for_event(lifecycle, handle, EventType.RUN_HANDED_OFF)
    messages = queue_key(EXPERTS, 0)
    rig.wait_until(lambda: rig.store.llen(messages) == 1, "the message for the experts")
    assert '"task": "retinue.handoff"' in str(rig.store.lindex(messages, 0))
    worker.kill()
    return handle


@pytest.mark.parametrize("wake_up_is_lost", [False, True])
def test_a_worker_that_is_killed_right_after_a_handoff_takes_nothing_with_it(
    split: RunRig, *, wake_up_is_lost: bool
) -> None:
    handle = _handed_off(split)
    lifecycle = split.lifecycle("killed")
    if wake_up_is_lost:
        # As if the worker had died between the store's answer and its message.
        split.store.delete(queue_key(EXPERTS, 0))
    before = lifecycle.status(handle)
    assert (before.state, before.phase, before.agent) == (SubagentState.RUNNING, "queued", "optional sums")

    split.worker(concurrency=1, queues=["retinue", EXPERTS])
    result = split.result(lifecycle, handle)

    assert result.summary == "3: What is 2+2?"
    (request,) = asked(split, "optional sums")
    assert [text.split()[0] for text in results(request)] == ["noted", "[HANDED", "[CANCELLED]"]
    assert len(asked(split, "optional front")) == 1
    assert [line.split()[1] for line in split.ledger()] == ["before"]
    following = lifecycle.continue_run(handle, "And 3+3?")
    assert split.result(lifecycle, following).summary == "3: And 3+3?"


@pytest.mark.parametrize(
    ("operation", "event", "count"),
    [
        ("boundary", EventType.MODEL_STARTED, 1),
        ("record_model", EventType.MODEL_FINISHED, 1),
        ("record_tool_result", EventType.TOOL_FINISHED, 1),
        ("launch", EventType.RUN_CREATED, 2),
        ("suspend", EventType.RUN_SUSPENDED, 1),
        ("handoff", EventType.RUN_HANDED_OFF, 1),
    ],
)
def test_a_crash_after_any_write_of_a_turn_leaves_each_call_one_result(
    split: RunRig, operation: str, event: EventType, count: int
) -> None:
    calls = (note("before"), send("optional words", "Ready?"), hand_off("optional sums"), note("after"))
    says(split, "optional front").then(Turn(calls=calls))
    says(split, "optional words").then("ready")
    says(split, "optional sums").reply(lambda request: "done")
    lifecycle = split.lifecycle("crash")
    queues = ["retinue", EXPERTS]
    proxy = FaultProxy(urlsplit(split.server.url).port or 0)
    try:
        # The store knows the script and does what it is told, and its worker never hears of it.
        split.store.script_load(script(operation).body)
        proxy.lose(Loss.REPLY, to=script(operation).sha.encode(), count=ALL)
        doomed = split.worker(concurrency=1, queues=queues, settings={"store_url": proxy.url})
        handle = lifecycle.launch(agent="optional", goal="What is 2+2?")
        split.wait_for_event(lifecycle, handle, event, count=count)
        doomed.kill()
    finally:
        proxy.close()

    split.worker(concurrency=1, queues=queues)
    result = split.result(lifecycle, handle)

    assert (result.terminal_state, result.summary) == (SubagentState.SUCCEEDED, "done")
    (request,) = asked(split, "optional sums")
    before, ready, handed_off, after = results(request)
    assert before in ("noted before", OUTCOME_UNKNOWN)
    assert ready == "ready"
    assert handed_off.startswith("[HANDED OFF]")
    assert after.startswith("[CANCELLED]")
    events = list(lifecycle.events(handle))
    assert len(of_kind(events, EventType.RUN_HANDED_OFF)) == 1
    finished = [each.data["index"] for each in of_kind(events, EventType.TOOL_FINISHED)]
    assert sorted(finished) == [0, 1, 2, 3]
    assert [line.split()[1] for line in split.ledger()].count("before") <= 1
    assert len(lifecycle.tree(handle)) == 2
