"""Runs that were given up: listed, shown, replayed and thrown away, in both colours."""

from __future__ import annotations

from typing import Any

import pytest
from tests.integration.client.conftest import Facades
from tests.integration.client.store_worker import StoreWorker
from tests.integration.client.tool_parent import ToolParent

from retinue.client import DeadLetter, ErrorCode, SubagentHandle, SubagentLifecycleError, SubagentState


def refusal(call: Any, *args: object, **keywords: object) -> SubagentLifecycleError:
    with pytest.raises(SubagentLifecycleError) as caught:
        call(*args, **keywords)
    return caught.value


@pytest.fixture
def lost(lifecycle: Any, worker: StoreWorker) -> SubagentHandle:
    """A run that was given up."""
    handle = lifecycle.launch(
        agent="support", goal="one", context="more", correlation_id="c-1", metadata={"a": 1}
    )
    worker.give_up(handle)
    return handle


def test_a_run_that_was_given_up_is_listed_and_shown(lifecycle: Any, lost: SubagentHandle) -> None:
    (listed,) = lifecycle.dead_letters()
    assert isinstance(listed, DeadLetter)
    assert (listed.run_id, listed.session_id, listed.agent, listed.losses) == (
        lost.subagent_id,
        "customer-42",
        "support",
        3,
    )
    for name in (lost, lost.subagent_id, listed, lost.to_dict()):
        shown = lifecycle.dead_letter(name)
        assert shown.request["goal"] == "one"
        assert shown.to_dict()["error_classification"] == "WORKER_LOST"


def test_another_session_sees_no_letter_and_can_do_nothing_with_it(
    facades: Facades, lifecycle: Any, lost: SubagentHandle
) -> None:
    for other in (facades("customer-43"), facades(tenant="acme"), facades.operator("acme")):
        assert other.dead_letters() == ()
        assert other.dead_letter(lost.subagent_id) is None
        assert other.discard(lost.subagent_id) is False
        assert refusal(other.replay, lost.subagent_id).code is ErrorCode.UNKNOWN_HANDLE
    assert len(lifecycle.dead_letters()) == 1


@pytest.mark.parametrize("by_operator", [False, True])
def test_a_replay_is_a_new_run_of_the_same_request_and_takes_the_letter_away(
    facades: Facades, lifecycle: Any, worker: StoreWorker, lost: SubagentHandle, by_operator: bool
) -> None:
    facade = facades.operator() if by_operator else lifecycle
    assert [letter.run_id for letter in facade.dead_letters()] == [lost.subagent_id]
    again = facade.replay(lost.subagent_id)

    assert again.subagent_id != lost.subagent_id
    assert again.parent_session_id == "customer-42"
    status = lifecycle.status(again)
    assert (status.replays, status.state) == (lost.subagent_id, SubagentState.PENDING)
    assert status.to_dict()["replays"] == lost.subagent_id
    assert lifecycle.status(lost).state is SubagentState.FAILED
    worker.complete(again)
    assert lifecycle.result(again).metadata == {"a": 1}
    assert facade.dead_letters() == ()
    assert refusal(facade.replay, lost.subagent_id).code is ErrorCode.UNKNOWN_HANDLE


def test_a_letter_is_thrown_away_once(lifecycle: Any, lost: SubagentHandle) -> None:
    assert lifecycle.discard(lost) is True
    assert lifecycle.discard(lost) is False
    assert lifecycle.dead_letters() == ()


def test_a_letter_outlives_its_run(lifecycle: Any, worker: StoreWorker, lost: SubagentHandle) -> None:
    record = worker.key(lost).record
    worker.link.execute("DEL", record, f"{record}:req", f"{record}:res")
    assert lifecycle.status(lost).state is SubagentState.UNKNOWN
    assert lifecycle.dead_letter(lost).request["context"] == "more"
    assert lifecycle.status(lifecycle.replay(lost)).replays == lost.subagent_id


def test_a_turn_of_a_conversation_is_replayed_in_it(lifecycle: Any, worker: StoreWorker) -> None:
    first = lifecycle.launch(agent="support", goal="one")
    worker.complete(first)
    second = lifecycle.continue_run(first, "two")
    worker.give_up(second)
    again = lifecycle.replay(second)
    record = worker.link.execute("HGET", worker.key(again).record, "th")
    assert record.decode() == first.subagent_id


def test_a_child_is_not_replayed_without_its_parent(
    facades: Facades, lifecycle: Any, worker: StoreWorker
) -> None:
    root = lifecycle.launch(agent="support", goal="one")
    fence = worker.claim(root)
    worker.boundary(root, fence)
    child = facades.of_parent(ToolParent(root, fence)).launch(agent="researcher", goal="two")
    worker.give_up(child)
    error = refusal(lifecycle.replay, child)
    assert "child" in str(error)
    assert "discard" in str(error)
    assert lifecycle.discard(child) is True


@pytest.mark.parametrize("run", [None, 5, "", "sa-p07-short", {}, object()])
def test_what_names_no_run_has_no_letter(lifecycle: Any, run: object) -> None:
    assert lifecycle.dead_letter(run) is None
    assert lifecycle.discard(run) is False
    assert refusal(lifecycle.replay, run).code is ErrorCode.UNKNOWN_HANDLE


@pytest.mark.parametrize("limit", [0, -1, True, "5", 10**9])
def test_a_limit_is_a_count(lifecycle: Any, limit: object) -> None:
    assert refusal(lifecycle.dead_letters, limit=limit).field == "limit"
