"""The states of a run, the phases that say more, and which state may follow which.

One enum, one table, one frozenset: the guards in Lua and the diagram in the README are tested against
this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class SubagentState(StrEnum):
    """The nine public states. Two of them are only shown, never stored."""

    PENDING = "PENDING"  # accepted, never claimed by a worker
    STARTING = "STARTING"  # first claim to first iteration boundary
    RUNNING = "RUNNING"  # from the first boundary on; also while suspended or queued again
    SUCCEEDED = "SUCCEEDED"  # finished by itself
    FAILED = "FAILED"  # ended by an error
    INTERRUPTED = "INTERRUPTED"  # cut by a limit or a soft interrupt, with its partial text
    CANCEL_REQUESTED = "CANCEL_REQUESTED"  # shown: not terminal yet, under a cancel mark
    CANCELLED = "CANCELLED"  # stopped after a cancel
    UNKNOWN = "UNKNOWN"  # shown: no such run for this caller


class Phase(StrEnum):
    """What a run that has not ended is doing or waiting for."""

    NONE = ""  # terminal or unknown
    QUEUED = "queued"  # waiting for a worker's slot, for the first time or again
    SCHEDULED = "scheduled"  # due later
    NO_WORKER = "no_worker"  # no live worker can run it
    CLAIMED = "claimed"  # a worker has it and prepares its first iteration
    MODEL_CALL = "model_call"
    TOOL_CALL = "tool_call"
    WAITING_CHILDREN = "waiting_children"
    WAITING_APPROVAL = "waiting_approval"
    WAITING_INPUT = "waiting_input"
    PAUSED_BUDGET = "paused_budget"
    DRAINING = "draining"  # its worker shuts down and hands it back at the next boundary


TERMINAL_STATES: Final[frozenset[SubagentState]] = frozenset(
    {SubagentState.SUCCEEDED, SubagentState.FAILED, SubagentState.INTERRUPTED, SubagentState.CANCELLED}
)

# Its keys are the states that a record can hold. A run that is handed back before its first boundary
# goes from STARTING to RUNNING (phase queued): STARTING is seen once.
TRANSITIONS: Final[Mapping[SubagentState, frozenset[SubagentState]]] = MappingProxyType(
    {
        SubagentState.PENDING: frozenset(
            {
                SubagentState.STARTING,
                SubagentState.CANCELLED,
                SubagentState.INTERRUPTED,
                SubagentState.FAILED,
            }
        ),
        SubagentState.STARTING: frozenset({SubagentState.RUNNING}) | TERMINAL_STATES,
        SubagentState.RUNNING: TERMINAL_STATES,
        SubagentState.SUCCEEDED: frozenset(),
        SubagentState.FAILED: frozenset(),
        SubagentState.INTERRUPTED: frozenset(),
        SubagentState.CANCELLED: frozenset(),
    }
)

_NO_PHASE: Final = frozenset({Phase.NONE})
_PENDING_PHASES: Final = frozenset({Phase.QUEUED, Phase.SCHEDULED, Phase.NO_WORKER})
_RUNNING_PHASES: Final = frozenset(
    {
        Phase.MODEL_CALL,
        Phase.TOOL_CALL,
        Phase.WAITING_CHILDREN,
        Phase.WAITING_APPROVAL,
        Phase.WAITING_INPUT,
        Phase.PAUSED_BUDGET,
        Phase.QUEUED,
        Phase.DRAINING,
    }
)

PHASES_OF: Final[Mapping[SubagentState, frozenset[Phase]]] = MappingProxyType(
    {
        SubagentState.PENDING: _PENDING_PHASES,
        SubagentState.STARTING: frozenset({Phase.CLAIMED}),
        SubagentState.RUNNING: _RUNNING_PHASES,
        SubagentState.CANCEL_REQUESTED: _PENDING_PHASES | {Phase.CLAIMED} | _RUNNING_PHASES,
        SubagentState.SUCCEEDED: _NO_PHASE,
        SubagentState.FAILED: _NO_PHASE,
        SubagentState.INTERRUPTED: _NO_PHASE,
        SubagentState.CANCELLED: _NO_PHASE,
        SubagentState.UNKNOWN: _NO_PHASE,
    }
)
