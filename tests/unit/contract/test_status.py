from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from retinue.contract import (
    BudgetCap,
    BudgetRaise,
    BudgetStatus,
    HandleKey,
    Keyring,
    OnSpent,
    Phase,
    SteerReceipt,
    SteerState,
    SubagentCancelResult,
    SubagentPurgeResult,
    SubagentReconnectResult,
    SubagentState,
    SubagentStatus,
    SubagentTerminalState,
    Usage,
    new_run_id,
)

HANDLE = Keyring([HandleKey("k1", b"s" * 32)]).mint(
    "_",
    {
        "subagent_id": new_run_id(3),
        "parent_session_id": "customer-42",
        "correlation_id": None,
        "created_at": 1.0,
        "provider": None,
        "model": None,
        "role": "leaf",
        "depth": 0,
    },
)

KINDS = [
    SubagentStatus,
    SubagentTerminalState,
    SubagentCancelResult,
    SubagentReconnectResult,
    SteerReceipt,
]
ANSWERS: list[Any] = [
    SubagentStatus(
        handle=HANDLE,
        state=SubagentState.RUNNING,
        phase=Phase.TOOL_CALL,
        updated_at=2.5,
        iteration=3,
        usage=Usage(model_calls=3),
        limits={"max_iterations": 50},
        agent="support",
        model="gpt-5-mini",
        provider="openai",
        budget=BudgetStatus({"usd": BudgetCap(1.0, 0.5, 0.25, 0.25)}, OnSpent.PAUSE),
    ),
    SubagentTerminalState(handle=HANDLE, state=SubagentState.RUNNING, completed=False, timed_out=True),
    SubagentCancelResult(accepted=True, state=SubagentState.CANCEL_REQUESTED),
    SubagentReconnectResult(connected=True, state=SubagentState.RUNNING),
    SteerReceipt(steer_id="s1", state=SteerState.DELIVERED, iteration=2),
]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: type(answer).__name__)
def test_an_answer_is_plain_json_with_every_field(answer: Any) -> None:
    as_json = json.loads(json.dumps(answer.to_dict()))
    assert as_json == answer.to_dict()
    assert set(as_json) == set(type(answer).__dataclass_fields__)
    assert pickle.loads(pickle.dumps(answer)) == answer


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [None, 42, {}, "x", {"capability": 1}, object()])
def test_the_unknown_answer_takes_whatever_was_given_for_a_handle(kind: Any, value: object) -> None:
    answer = kind.unknown(value)
    assert answer.state in (SubagentState.UNKNOWN, SteerState.UNKNOWN)
    assert getattr(answer, "handle", None) is None


def test_the_status_of_an_unknown_handle() -> None:
    status = SubagentStatus.unknown(HANDLE.to_dict())
    assert (status.handle, status.state, status.phase) == (HANDLE, SubagentState.UNKNOWN, Phase.NONE)
    assert status.diagnostic == "UNKNOWN_HANDLE"
    assert status.usage is None
    assert status.updated_at is None


def test_waiting_for_an_unknown_handle_is_over_at_once() -> None:
    answer = SubagentTerminalState.unknown(HANDLE)
    assert (answer.completed, answer.timed_out, answer.diagnostic) == (True, False, "UNKNOWN_HANDLE")


def test_cancelling_an_unknown_handle_is_not_accepted() -> None:
    assert SubagentCancelResult.unknown().to_dict() == {
        "accepted": False,
        "state": "UNKNOWN",
        "unknown_handle": True,
        "already_terminal": False,
        "unsupported": False,
    }


def test_an_unknown_handle_does_not_connect() -> None:
    answer = SubagentReconnectResult.unknown(HANDLE)
    assert (answer.connected, answer.diagnostic) == (False, "RECONNECT_UNAVAILABLE")


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: type(answer).__name__)
def test_an_answer_cannot_be_changed_and_shows_no_capability(answer: Any) -> None:
    with pytest.raises(AttributeError):
        answer.state = SubagentState.FAILED
    assert HANDLE.capability not in repr(answer)


def test_a_raise_is_plain_json_with_every_field() -> None:
    for answer in (
        BudgetRaise(accepted=True, budget=BudgetStatus({}, OnSpent.STOP), woken=1),
        BudgetRaise.unknown(),
    ):
        as_json = json.loads(json.dumps(answer.to_dict()))
        assert as_json == answer.to_dict()
        assert set(as_json) == set(BudgetRaise.__dataclass_fields__)


def test_a_purge_is_plain_json_with_every_field() -> None:
    for answer in (
        SubagentPurgeResult(purged=True, runs=3),
        SubagentPurgeResult(purged=False, live_run_id=HANDLE.subagent_id),
        SubagentPurgeResult.unknown(HANDLE),
    ):
        as_json = json.loads(json.dumps(answer.to_dict()))
        assert as_json == answer.to_dict()
        assert set(as_json) == set(SubagentPurgeResult.__dataclass_fields__)
    assert (answer.purged, answer.runs, answer.unknown_handle) == (False, 0, True)
    assert HANDLE.capability not in repr(answer)
