"""The lifecycle facade, sync and async, with the types of the public contract.

What a first call needs beyond this (settings, Celery, declarations) is imported by that call.
"""

from retinue.contract import (
    ErrorClassification,
    ErrorCode,
    Event,
    EventType,
    LaunchLimits,
    OnDone,
    OnDuplicate,
    OnParentEnd,
    Phase,
    Priority,
    RetinueError,
    Role,
    SettingsError,
    SteerReceipt,
    SteerState,
    SubagentCancelResult,
    SubagentHandle,
    SubagentLaunchRequest,
    SubagentLifecycleError,
    SubagentReconnectResult,
    SubagentResult,
    SubagentState,
    SubagentStatus,
    SubagentTerminalState,
    Usage,
)

from .aio import AsyncSubagentLifecycle
from .lifecycle import SubagentLifecycle
from .tree import SubagentNode

__all__ = [
    "AsyncSubagentLifecycle",
    "ErrorClassification",
    "ErrorCode",
    "Event",
    "EventType",
    "LaunchLimits",
    "OnDone",
    "OnDuplicate",
    "OnParentEnd",
    "Phase",
    "Priority",
    "RetinueError",
    "Role",
    "SettingsError",
    "SteerReceipt",
    "SteerState",
    "SubagentCancelResult",
    "SubagentHandle",
    "SubagentLaunchRequest",
    "SubagentLifecycle",
    "SubagentLifecycleError",
    "SubagentNode",
    "SubagentReconnectResult",
    "SubagentResult",
    "SubagentState",
    "SubagentStatus",
    "SubagentTerminalState",
    "Usage",
]
