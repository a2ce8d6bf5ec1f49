"""The lifecycle facade, sync and async, with the types of the public contract.

What a first call needs beyond this (settings, Celery, declarations) is imported by that call, and the async
facade where it is first named.
"""

from typing import TYPE_CHECKING, Any

from retinue.client.reading.tree import SubagentNode
from retinue.contract import (
    Audience,
    Budget,
    BudgetCap,
    BudgetRaise,
    BudgetStatus,
    DeadLetter,
    DecisionRefusal,
    ErrorClassification,
    ErrorCode,
    Event,
    EventType,
    LaunchLimits,
    OnDone,
    OnDuplicate,
    OnParentEnd,
    OnSpent,
    PendingRequest,
    Phase,
    Priority,
    RequestKind,
    RetinueError,
    Role,
    SettingsError,
    SteerReceipt,
    SteerState,
    SubagentCancelResult,
    SubagentDecision,
    SubagentHandle,
    SubagentLaunchRequest,
    SubagentLifecycleError,
    SubagentPurgeResult,
    SubagentReconnectResult,
    SubagentResult,
    SubagentState,
    SubagentStatus,
    SubagentTerminalState,
    Usage,
    WaitUntil,
    Webhook,
)

from .lifecycle import SubagentLifecycle

if TYPE_CHECKING:
    from .aio import AsyncSubagentLifecycle

__all__ = [
    "AsyncSubagentLifecycle",
    "Audience",
    "Budget",
    "BudgetCap",
    "BudgetRaise",
    "BudgetStatus",
    "DeadLetter",
    "DecisionRefusal",
    "ErrorClassification",
    "ErrorCode",
    "Event",
    "EventType",
    "LaunchLimits",
    "OnDone",
    "OnDuplicate",
    "OnParentEnd",
    "OnSpent",
    "PendingRequest",
    "Phase",
    "Priority",
    "RequestKind",
    "RetinueError",
    "Role",
    "SettingsError",
    "SteerReceipt",
    "SteerState",
    "SubagentCancelResult",
    "SubagentDecision",
    "SubagentHandle",
    "SubagentLaunchRequest",
    "SubagentLifecycle",
    "SubagentLifecycleError",
    "SubagentNode",
    "SubagentPurgeResult",
    "SubagentReconnectResult",
    "SubagentResult",
    "SubagentState",
    "SubagentStatus",
    "SubagentTerminalState",
    "Usage",
    "WaitUntil",
    "Webhook",
]


def __getattr__(name: str) -> Any:
    if name != "AsyncSubagentLifecycle":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .aio import AsyncSubagentLifecycle

    globals()[name] = AsyncSubagentLifecycle
    return AsyncSubagentLifecycle
