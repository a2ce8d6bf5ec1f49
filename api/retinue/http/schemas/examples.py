"""Examples of bodies and answers. Those of answers are made by the contract itself, and so stay true."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from retinue.client import SubagentNode
from retinue.contract import (
    Audience,
    BudgetCap,
    BudgetRaise,
    BudgetStatus,
    Event,
    EventType,
    OnSpent,
    PendingRequest,
    Phase,
    RequestKind,
    Role,
    SteerReceipt,
    SteerState,
    SubagentCancelResult,
    SubagentDecision,
    SubagentHandle,
    SubagentPurgeResult,
    SubagentReconnectResult,
    SubagentResult,
    SubagentState,
    SubagentStatus,
    SubagentTerminalState,
    Usage,
)

RUN_ID: Final = "sa-p07-abcdefghijklmnopqrstuvwxyz"
CHILD_ID: Final = "sa-p07-zyxwvutsrqponmlkjihgfedcba"
_LAUNCHED_AT: Final = 1_798_761_600.25

_HANDLE: Final = SubagentHandle(
    subagent_id=RUN_ID,
    parent_session_id="customer-42",
    correlation_id="ticket-9001",
    created_at=_LAUNCHED_AT,
    provider="openai",
    model="gpt-5-mini",
    role=Role.LEAF,
    depth=0,
    capability="v1.k1.Zm9yIHNob3c",
)
_USAGE: Final = Usage(
    model_calls=2,
    input_tokens=830,
    output_tokens=112,
    tool_calls=1,
    tools={"search_handbook": 1},
    tool_seconds={"search_handbook": 0.041},
    attempts=1,
    cost_usd=0.000431,
)
_BUDGET: Final = BudgetStatus(
    {"usd": BudgetCap(limit=2.5, used=0.000431, held=0.0, left=2.499569)}, OnSpent.PAUSE
)
_STATUS: Final = SubagentStatus(
    handle=_HANDLE,
    state=SubagentState.RUNNING,
    phase=Phase.MODEL_CALL,
    updated_at=_LAUNCHED_AT + 1.5,
    iteration=2,
    usage=_USAGE,
    tree_usage=_USAGE,
    limits={
        "max_iterations": 50,
        "max_tool_calls": None,
        "max_depth": 4,
        "max_live_children": 20,
        "max_tree_children": 1000,
        "deadline_at": _LAUNCHED_AT + 600,
        "seconds_left": 598.5,
    },
    agent="support",
    model="gpt-5-mini",
    provider="openai",
    budget=_BUDGET,
)
_RESULT: Final = SubagentResult.ended(
    _HANDLE,
    SubagentState.SUCCEEDED,
    started_at=_LAUNCHED_AT + 0.1,
    completed_at=_LAUNCHED_AT + 3.2,
    summary="Opened headphones may be returned within 14 days.",
    usage_metadata={**_USAGE.to_dict(), "tree": _USAGE.to_dict()},
    tool_execution_summary={
        "duration_seconds": 3.1,
        "tool_calls": 1,
        "tools": {"search_handbook": 1},
        "tool_seconds": {"search_handbook": 0.041},
    },
    metadata={"order": 7},
)
_NODES: Final = (
    SubagentNode(run_id=RUN_ID, agent="support", parent_id=None, state=SubagentState.RUNNING, usage=_USAGE),
    SubagentNode(
        run_id=CHILD_ID,
        agent="researcher",
        parent_id=RUN_ID,
        state=SubagentState.PENDING,
        phase=Phase.QUEUED,
        depth=1,
        usage=Usage(),
    ),
)
_PENDING: Final = PendingRequest(
    request_id=f"{RUN_ID}/2:0",
    run_id=RUN_ID,
    kind=RequestKind.APPROVAL,
    agent="support",
    tool="refund",
    arguments={"order": 7, "usd": 19.9},
    argument_hash="9f2f…",
    call_id="call_1",
    asked_at=_LAUNCHED_AT + 2,
    expires_at=_LAUNCHED_AT + 3602,
    audience=Audience.USER,
)
_END: Final = SubagentTerminalState(handle=_HANDLE, state=SubagentState.SUCCEEDED, completed=True)

_EVENT: Final = Event(
    sequence=2,
    type=EventType.RUN_STARTED,
    run_id=RUN_ID,
    at=datetime.fromtimestamp(_LAUNCHED_AT + 0.1, UTC),
    data={"attempt": 1, "process": "2b1f0e52c5a14f6d8f6f1f0f3c9d7a10"},
)

_LAUNCHED: Final = {"run_id": RUN_ID, "handle": _HANDLE.to_dict()}
_REQUEST: Final = {
    "agent": "support",
    "goal": "May I return opened headphones?",
    "correlation_id": "ticket-9001",
}

EXAMPLES: Final[dict[str, Any]] = {
    "LaunchBody": {"session_id": "customer-42", **_REQUEST},
    "LaunchManyBody": {"session_id": "customer-42", "requests": [{"agent": "support", "goal": "Sum up."}]},
    "ContinueBody": {"text": "And within which time?"},
    "SteerBody": {"text": "The customer lives in Germany."},
    "ReasonBody": {"reason": "the customer has called back"},
    "ApproveBody": {"request_id": _PENDING.request_id},
    "DenyBody": {"request_id": _PENDING.request_id, "reason": "too much"},
    "AnswerBody": {"request_id": _PENDING.request_id, "value": "Berlin"},
    "BudgetBody": {"usd": 5.0},
    "WaitBody": {"runs": [RUN_ID], "mode": "any", "timeout_seconds": 30},
    "ResultsBody": {"runs": [RUN_ID]},
    "LaunchedAnswer": _LAUNCHED,
    "LaunchedManyAnswer": {"runs": [_LAUNCHED]},
    "StatusAnswer": _STATUS.to_dict(),
    "RunsAnswer": {"runs": [_STATUS.to_dict()], "next_cursor": None},
    "TreeAnswer": {"nodes": [node.to_dict() for node in _NODES]},
    "EndAnswer": _END.to_dict(),
    "EndsAnswer": {"states": [_END.to_dict()]},
    "ResultAnswer": _RESULT.to_dict(),
    "ResultsAnswer": {"results": [_RESULT.to_dict()]},
    "TextAnswer": {"text": _RESULT.summary},
    "ReconnectAnswer": SubagentReconnectResult(connected=True, state=SubagentState.RUNNING).to_dict(),
    "ReceiptAnswer": SteerReceipt(steer_id="5f0c41d2", state=SteerState.QUEUED).to_dict(),
    "CancelAnswer": SubagentCancelResult(accepted=True, state=SubagentState.CANCEL_REQUESTED).to_dict(),
    "PendingAnswer": {"requests": [_PENDING.to_dict()]},
    "DecisionAnswer": SubagentDecision(accepted=True).to_dict(),
    "EventsAnswer": {"events": [_EVENT.to_dict()], "gaps": [], "next_after": _EVENT.sequence},
    "RaiseAnswer": BudgetRaise(accepted=True, budget=_BUDGET, woken=1).to_dict(),
    "PurgeAnswer": SubagentPurgeResult(purged=True, runs=2).to_dict(),
}
"""By the name of the model."""
