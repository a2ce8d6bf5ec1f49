"""Every answer is made again, equal, of what its to_dict() gave, in another process or release."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from retinue.contract import (
    Audience,
    BudgetCap,
    BudgetRaise,
    BudgetStatus,
    DeadLetter,
    DecisionRefusal,
    ErrorClassification,
    Event,
    EventType,
    HandleKey,
    Keyring,
    OnSpent,
    PendingRequest,
    Phase,
    RequestKind,
    SteerReceipt,
    SteerState,
    SubagentCancelResult,
    SubagentDecision,
    SubagentLifecycleError,
    SubagentPurgeResult,
    SubagentReconnectResult,
    SubagentResult,
    SubagentState,
    SubagentStatus,
    SubagentTerminalState,
    Usage,
    new_run_id,
)

RUN = new_run_id(3)
HANDLE = Keyring([HandleKey("k1", b"s" * 32)]).mint(
    "_",
    {
        "subagent_id": RUN,
        "parent_session_id": "customer-42",
        "correlation_id": "c1",
        "created_at": 1.25,
        "provider": None,
        "model": "m",
        "role": "leaf",
        "depth": 0,
    },
)
USAGE = Usage(model_calls=2, tools={"search": 1}, tool_seconds={"search": 0.25}, cost_usd=0.5)
BUDGET = BudgetStatus({"tokens": BudgetCap(10, 4, 1, 5), "usd": BudgetCap(1.5, 0.5, 0.0, 1.0)}, OnSpent.STOP)
RESULT = SubagentResult.ended(
    HANDLE,
    SubagentState.FAILED,
    completed_at=3.0,
    started_at=2.0,
    summary="so far \u2028 \u00fc",
    structured_payload={"days": [30, 1.0, None]},
    error_classification=ErrorClassification.MODEL_REJECTED,
    error_message="no such model",
    usage_metadata={**USAGE.to_dict(), "tree": USAGE.to_dict()},
    tool_execution_summary={"duration_seconds": 1.0},
    metadata={"ticket": 1},
    steers=(SteerReceipt(steer_id="s", state=SteerState.MISSED, text="late"),),
)
LETTER = DeadLetter(
    run_id=RUN,
    session_id="customer-42",
    agent="support",
    error_classification=ErrorClassification.WORKER_LOST,
    losses=3,
    iteration=1,
    created_at=1.0,
    ended_at=2.0,
    root_id=RUN,
    parent_id=None,
    launch_json='{"request":{"goal":"x"},"role":"leaf"}',
)
ANSWERS = [
    USAGE,
    BUDGET,
    BUDGET.caps["usd"],
    SubagentStatus(
        handle=HANDLE,
        state=SubagentState.RUNNING,
        phase=Phase.MODEL_CALL,
        updated_at=2.5,
        iteration=1,
        usage=USAGE,
        tree_usage=USAGE,
        limits={"max_iterations": 7, "deadline_at": None},
        agent="support",
        pending=1,
        budget=BUDGET,
    ),
    SubagentStatus.unknown(),
    SubagentTerminalState(handle=HANDLE, state=SubagentState.SUCCEEDED, completed=True),
    SubagentTerminalState.unknown({}),
    SubagentCancelResult(accepted=True, state=SubagentState.CANCEL_REQUESTED),
    SubagentCancelResult.unknown(),
    SubagentPurgeResult(purged=True, runs=4),
    SubagentReconnectResult(connected=True, state=SubagentState.RUNNING),
    SteerReceipt(steer_id="s", state=SteerState.DELIVERED, iteration=2),
    BudgetRaise(accepted=True, budget=BUDGET, woken=1),
    BudgetRaise.unknown(),
    RESULT,
    SubagentResult.not_ready(HANDLE, SubagentState.RUNNING),
    SubagentResult.unknown("x"),
    PendingRequest(
        request_id=f"{RUN}/1:0",
        run_id=RUN,
        kind=RequestKind.APPROVAL,
        agent="support",
        tool="refund",
        arguments={"order": 7},
        argument_hash="a" * 64,
        call_id="c",
        asked_at=1.0,
        expires_at=2.0,
        audience=Audience.PARENT,
    ),
    SubagentDecision(accepted=False, reason=DecisionRefusal.DECIDED),
    SubagentDecision(accepted=True),
    LETTER,
    Event(
        sequence=3,
        type=EventType.STEER_QUEUED,
        run_id=RUN,
        at=datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC),
        data={"steer": "s"},
    ),
]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: type(answer).__name__)
def test_an_answer_is_made_again_of_its_json(answer: Any) -> None:
    told = json.loads(json.dumps(answer.to_dict()))
    again = type(answer).from_dict(told)
    assert again == answer
    assert again.to_dict() == told


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: type(answer).__name__)
@pytest.mark.parametrize("value", [None, 42, "x", [], {"state": 1}])
def test_what_is_no_answer_is_refused_by_name(answer: Any, value: Any) -> None:
    if value == {"state": 1} and isinstance(answer, Usage):
        return  # every field of it may be left out
    with pytest.raises(SubagentLifecycleError) as caught:
        type(answer).from_dict(value)
    assert caught.value.field == type(answer).__name__


def test_a_newer_release_may_say_more() -> None:
    told = {**SubagentStatus.unknown().to_dict(), "mood": "good"}
    assert SubagentStatus.from_dict(told) == SubagentStatus.unknown()


def test_a_result_that_was_changed_on_its_way_is_refused() -> None:
    for name, value in (("summary", "another"), ("completed_at", 4.0), ("metadata", {})):
        with pytest.raises(SubagentLifecycleError, match="result_hash"):
            SubagentResult.from_dict({**RESULT.to_dict(), name: value})


def test_a_letter_keeps_what_was_asked_for() -> None:
    assert DeadLetter.from_dict(LETTER.to_dict()).request == {"goal": "x"}
    assert DeadLetter.from_dict({**LETTER.to_dict(), "request": None}).request is None
