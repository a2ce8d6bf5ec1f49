"""A handoff: one step answers its calls, changes the agent and queues the run; the thread keeps its owner."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.integration.store.attempt import Attempt
from tests.integration.store.stage import Stage

from retinue.contract import EventType, SubagentState
from retinue.store.call import ScriptCall
from retinue.store.operations import reading
from retinue.store.operations.launching import Launched
from retinue.store.operations.reading import Conversation
from retinue.store.record import WakeUpKind
from retinue.store.replies import CallResult, Claimed, HandedOff, Stale, Stopped, TooManyHandoffs

RESULTS = (
    CallResult(1, "handed over", "handoff_conversation", ok=True),
    CallResult(2, "cancelled", "search", ok=False),
)


def handing_off_call(attempt: Attempt, **changes: Any) -> ScriptCall[Any]:
    """A handoff by the second of three calls."""
    values: dict[str, Any] = {"results": RESULTS, **changes}
    return attempt.hand_off(**values)


def deciding(stage: Stage, **changes: Any) -> Attempt:
    """A run whose model called a tool, which is answered, a handoff, and another tool."""
    attempt = stage.calling(stage.root(**changes), "search", "handoff_conversation", "search")
    stage.run(attempt.tool(0))
    return attempt


def test_a_handoff_keeps_the_run_and_queues_it_for_the_recipients_workers(stage: Stage) -> None:
    attempt = deciding(stage)
    before = len(stage.events(attempt.run))

    reply = stage.run(handing_off_call(attempt))

    assert isinstance(reply, HandedOff)
    assert reply.wakeup.kind is WakeUpKind.HANDOFF
    assert reply.wakeup.kind.task_name == "retinue.handoff"
    assert (reply.wakeup.run_id, reply.wakeup.agent, reply.wakeup.queue) == (
        attempt.run.run_id,
        "researcher",
        "research",
    )
    assert stage.queued("research") == [attempt.run.run_id]
    assert stage.owned() == []
    assert stage.story(attempt.run, after=before) == [
        ("tool.finished", {"iteration": 1, "index": 1, "tool": "handoff_conversation", "ok": True}),
        ("tool.finished", {"iteration": 1, "index": 2, "tool": "search", "ok": False}),
        ("run.handed_off", {"from": "support", "to": "researcher"}),
        ("run.resumed", {"wakeup": 2}),
    ]
    assert stage.state(attempt.run) is SubagentState.RUNNING


def test_the_next_claim_finds_every_call_answered_and_no_spec(stage: Stage) -> None:
    attempt = deciding(stage)
    stage.run(handing_off_call(attempt))

    claimed = stage.run(stage.claim_call(attempt.run, process="p2"))

    assert isinstance(claimed, Claimed)
    assert claimed.fence.epoch == attempt.fence.epoch + 1
    assert claimed.spec_json is None
    assert (claimed.record.agent, claimed.record.model, claimed.record.handoffs) == ("researcher", None, 1)
    assert {slot: json.loads(value) for slot, value in claimed.journal.items()} == {
        "1:0": "found",
        "1:1": "handed over",
        "1:2": "cancelled",
    }
    assert claimed.record.usage.tools == {"search": 2, "handoff_conversation": 1}
    following = Attempt(stage, attempt.run, claimed)
    following.go(results=[0, 1, 2])
    assert stage.record(attempt.run).model == "gpt-5-mini"


def test_a_result_that_stands_already_stays(stage: Stage) -> None:
    attempt = deciding(stage)
    stage.run(attempt.tool(2, "found as well"))

    stage.run(handing_off_call(attempt))

    claimed = stage.claim(attempt.run, process="p2").claimed
    assert json.loads(claimed.journal["1:2"]) == "found as well"
    assert claimed.record.usage.tools == {"search": 2, "handoff_conversation": 1}


def test_an_attempt_that_has_lost_the_run_hands_nothing_off(stage: Stage) -> None:
    attempt = deciding(stage)
    stage.run(attempt.hand_back())
    other = stage.claim(attempt.run, process="p2")
    before = stage.dump()

    for fence in (attempt.fence, other.with_fence(other.fence.epoch, "forged").fence):
        stale = Attempt(stage, attempt.run, attempt.claimed, fence)
        assert stage.run(handing_off_call(stale)) == Stale()
    assert stage.run(handing_off_call(other, iteration=2)) == Stale()
    assert stage.dump() == before


@pytest.mark.parametrize("cause", ["CANCEL", "INTERRUPT", "DEADLINE"])
def test_a_run_that_is_to_stop_is_not_handed_off(stage: Stage, cause: str) -> None:
    attempt = deciding(stage, timeout_ms=60_000)
    match cause:
        case "CANCEL":
            stage.cancel(attempt.run)
        case "INTERRUPT":
            stage.server.hset(stage.part(attempt.run, "tree:{}:m"), "0/", "i")
        case _:
            stage.expire_deadline(attempt.run)
    before = stage.dump()

    assert stage.run(handing_off_call(attempt)) == Stopped(cause)
    assert stage.dump() == before


def test_a_run_is_handed_off_so_often_and_no_more(stage: Stage) -> None:
    attempt = deciding(stage)
    stage.run(handing_off_call(attempt, max_handoffs=1))
    attempt = stage.claim(attempt.run)
    attempt.go(results=[0, 1, 2])
    stage.run(attempt.model(tools=["handoff_conversation"]))
    before = stage.dump()

    call = handing_off_call(attempt, max_handoffs=1, iteration=2, results=(RESULTS[0],))

    assert stage.run(call) == TooManyHandoffs(1)
    assert stage.dump() == before


def test_the_owner_stays_with_the_thread_for_as_long_as_that_is_kept(stage: Stage) -> None:
    attempt = deciding(stage)
    stage.run(handing_off_call(attempt))
    owner = stage.part(attempt.run, "th:{}:ow")
    assert stage.server.get(owner) == "researcher"
    assert stage.server.ttl(owner) == -1

    stage.end(attempt.run)
    assert stage.server.ttl(owner) == stage.server.ttl(stage.part(attempt.run, "th:{}")) > 3600

    following = stage.new_run(thread_id=attempt.run.run_id, continues=attempt.run.run_id)
    assert isinstance(stage.launch(following), Launched)
    assert stage.server.ttl(owner) == -1
    assert stage.record(stage.key(following.run_id)).continues == attempt.run.run_id


def test_a_conversation_can_be_read_for_as_long_as_its_thread_is_kept(stage: Stage) -> None:
    attempt = deciding(stage)
    conversation = reading.read_conversation(attempt.run, attempt.run.run_id)
    assert stage.run(conversation) == Conversation(None)
    stage.run(handing_off_call(attempt))
    stage.end(attempt.run)
    assert stage.run(conversation) == Conversation("researcher")
    request, thread = (stage.part(attempt.run, name) for name in ("run:{}:req", "th:{}"))
    assert stage.server.ttl(request) == stage.server.ttl(thread) == 7000

    stage.server.delete(attempt.run.record)
    assert stage.run(reading.read_request(attempt.run)) == '{"goal":"g"}'
    stage.server.delete(request, thread, thread + ":ow")
    assert stage.run(reading.read_request(attempt.run)) is None
    assert stage.run(conversation) is None


def test_the_log_of_a_handoff_names_both_agents(stage: Stage) -> None:
    attempt = deciding(stage)
    stage.run(handing_off_call(attempt, sender='sup"port', recipient="recherché"))
    (event,) = [each for each in stage.events(attempt.run) if each.type is EventType.RUN_HANDED_OFF]
    assert event.data == {"from": 'sup"port', "to": "recherché"}
