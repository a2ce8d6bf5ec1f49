"""The next turn of a conversation, in both colours and over both servers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.integration.client.conftest import Facades
from tests.integration.client.store_worker import StoreWorker
from tests.integration.client.tool_parent import ToolParent

from retinue.client import ErrorCode, SubagentHandle, SubagentLifecycleError, SubagentState
from retinue.store import keys
from retinue.store.call import RunKey
from retinue.store.operations import handing_off, reading
from retinue.store.replies import CallResult, HandedOff

MAIN = "customer-42"


def refusal(call: Any, *args: object, **keywords: object) -> SubagentLifecycleError:
    with pytest.raises(SubagentLifecycleError) as caught:
        call(*args, **keywords)
    return caught.value


def said(worker: StoreWorker, first: SubagentHandle) -> list[str]:
    """The roles and texts of the conversation that a run began."""
    call = reading.read_thread("_", first.subagent_id, first.subagent_id)
    return [message.get("content", message["role"]) for message in map(json.loads, worker.store.run(call))]


def test_the_next_turn_is_a_new_run_of_the_same_request_on_the_same_thread(
    lifecycle: Any, worker: StoreWorker
) -> None:
    first = lifecycle.launch(
        agent="support",
        goal="one",
        context="of three",
        inputs={"shop": "a"},
        metadata={"turn": 1},
        role="orchestrator",
    )
    worker.complete(first)

    second = lifecycle.continue_run(first, "two", metadata={"turn": 2})

    assert second.subagent_id != first.subagent_id
    assert (second.role, second.depth, second.parent_session_id) == ("orchestrator", 0, MAIN)
    status = lifecycle.status(second)
    assert (status.continues, status.agent, status.state) == (
        first.subagent_id,
        "support",
        SubagentState.PENDING,
    )
    assert lifecycle.status(first).continues is None
    assert status.to_dict()["continues"] == first.subagent_id
    worker.complete(second)
    assert lifecycle.result(second).metadata == {"turn": 2}
    assert lifecycle.result(first).metadata == {"turn": 1}

    third = lifecycle.continue_run(first, "three", inputs={"shop": "b"})

    assert lifecycle.status(third).continues == first.subagent_id
    assert said(worker, first) == ["one\n\nContext:\nof three", "assistant", "two", "assistant", "three"]
    request = json.loads(worker.store.run(reading.read_request(RunKey("_", third.subagent_id))) or "")[
        "request"
    ]
    assert (request["inputs"], request["metadata"], request["agent"]) == (
        {"shop": "b"},
        {"turn": 1},
        "support",
    )


def test_the_owner_of_the_conversation_answers_and_the_request_stays(
    lifecycle: Any, worker: StoreWorker
) -> None:
    first = lifecycle.launch(agent="support", goal="one")
    fence = worker.claim(first)
    worker.record(first, fence, worker.boundary(first, fence), tools=("handoff_conversation",))
    handed_off = worker.store.run(
        handing_off.hand_off(
            worker.key(first),
            fence,
            "operation",
            iteration=1,
            sender="support",
            recipient="researcher",
            queue="retinue",
            results=[CallResult(0, "yours", "handoff_conversation", ok=True)],
            max_handoffs=20,
        )
    )
    assert isinstance(handed_off, HandedOff)
    assert lifecycle.status(first).agent == "researcher"
    assert refusal(lifecycle.continue_run, first, "two").code is ErrorCode.RUN_ACTIVE
    lifecycle.cancel(first)

    second = lifecycle.continue_run(first, "two")

    assert lifecycle.status(second).agent == "researcher"
    request = json.loads(worker.store.run(reading.read_request(RunKey("_", second.subagent_id))) or "")[
        "request"
    ]
    assert request["agent"] == "support"


def test_a_conversation_has_one_live_run(lifecycle: Any, worker: StoreWorker) -> None:
    first = lifecycle.launch(agent="support", goal="one")
    active = refusal(lifecycle.continue_run, first, "two")
    assert active.code is ErrorCode.RUN_ACTIVE
    assert first.subagent_id in str(active)
    worker.complete(first)
    second = lifecycle.continue_run(first, "two")

    # Whichever of its handles is used.
    for handle in (first, second):
        assert refusal(lifecycle.continue_run, handle, "three").code is ErrorCode.RUN_ACTIVE
    assert said(worker, first) == ["one", "assistant", "two"]


def test_a_conversation_outlives_the_runs_that_it_was_made_of(lifecycle: Any, worker: StoreWorker) -> None:
    first = lifecycle.launch(agent="support", goal="one")
    worker.complete(first)
    second = lifecycle.continue_run(first, "two")
    worker.complete(second)
    for handle in (first, second):
        record = keys.record("_", handle.subagent_id)
        ttl = worker.link.execute("TTL", record + ":req")
        assert ttl > 600_000
        worker.link.execute("DEL", record, record + ":res")
        assert lifecycle.status(handle).state is SubagentState.UNKNOWN

    third = lifecycle.continue_run(second, "three")
    assert said(worker, first) == ["one", "assistant", "two", "assistant", "three"]
    worker.complete(third)
    worker.link.execute("DEL", keys.thread("_", first.subagent_id, first.subagent_id))

    gone = refusal(lifecycle.continue_run, third, "four")
    assert (gone.code, gone.field) == (ErrorCode.UNKNOWN_HANDLE, "handle")


def test_a_correlation_id_makes_a_turn_repeatable(lifecycle: Any, worker: StoreWorker) -> None:
    first = lifecycle.launch(agent="support", goal="one", on_duplicate="return", correlation_id="c1")
    worker.complete(first)
    second = lifecycle.continue_run(first, "two", correlation_id="c2")
    assert second.correlation_id == "c2"

    assert lifecycle.continue_run(first, "two", correlation_id="c2") == second
    conflict = refusal(lifecycle.continue_run, first, "other", correlation_id="c2")
    assert conflict.code is ErrorCode.CORRELATION_CONFLICT
    other = lifecycle.launch(agent="support", goal="one", on_duplicate="return")
    worker.complete(other)
    elsewhere = refusal(lifecycle.continue_run, other, "two", correlation_id="c2")
    assert elsewhere.code is ErrorCode.CORRELATION_CONFLICT


def test_only_a_genuine_handle_of_the_own_session_leads_to_a_conversation(
    lifecycle: Any, facades: Facades, worker: StoreWorker
) -> None:
    first = lifecycle.launch(agent="support", goal="one")
    worker.complete(first)
    forged = {**first.to_dict(), "depth": 1}
    for facade, handle in (
        (facades("another"), first),
        (lifecycle, forged),
        (lifecycle, None),
        (lifecycle, "x"),
    ):
        assert refusal(facade.continue_run, handle, "two").code is ErrorCode.UNKNOWN_HANDLE
    assert refusal(facades.operator().continue_run, first, "two").code is ErrorCode.NO_PARENT
    assert said(worker, first) == ["one", "assistant"]


def test_a_running_agent_continues_no_conversation_and_a_childs_is_not_to_be_continued(
    lifecycle: Any, facades: Facades, worker: StoreWorker
) -> None:
    root = lifecycle.launch(agent="support", goal="one")
    fence = worker.claim(root)
    worker.record(root, fence, worker.boundary(root, fence), tools=("search",))
    inside = facades.of_parent(ToolParent(root, fence))
    child = inside.launch(agent="researcher", goal="x")
    worker.complete(child)

    assert refusal(inside.continue_run, child, "two").field == "handle"
    refused = refusal(lifecycle.continue_run, child, "two")
    assert (refused.code, refused.field) == (ErrorCode.INVALID_REQUEST, "handle")


@pytest.mark.parametrize(
    ("text", "changes", "field"),
    [
        (" ", {}, "text"),
        (7, {}, "text"),
        ("x" * 60_000, {}, "text"),
        ("two", {"timeout_seconds": -1}, "timeout_seconds"),
        ("two", {"metadata": "x"}, "metadata"),
    ],
)
def test_what_cannot_be_said_is_refused_by_name(
    lifecycle: Any, worker: StoreWorker, text: object, changes: dict[str, object], field: str
) -> None:
    first = lifecycle.launch(agent="support", goal="one")
    worker.complete(first)
    error = refusal(lifecycle.continue_run, first, text, **changes)
    assert (error.code, error.field) == (ErrorCode.INVALID_REQUEST, field)
