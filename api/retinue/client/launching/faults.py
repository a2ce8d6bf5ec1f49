"""What the store's refusal of a launch means to the caller."""

from __future__ import annotations

from retinue.contract import ErrorCode, SubagentLifecycleError
from retinue.store.operations.launching import (
    DuplicateCorrelation,
    IdConflict,
    LetterGone,
    LimitReached,
    ParentRefused,
    SameWork,
    ThreadBusy,
)

MAY_BE_NEW = frozenset(
    {
        ErrorCode.NO_WORKER,
        ErrorCode.UNKNOWN_AGENT,
        ErrorCode.UNKNOWN_PROVIDER,
        ErrorCode.UNKNOWN_TOOLSET,
    }
)
"""Faults that a fresh look at the catalogue may cure: what they miss may have been advertised just now."""

LaunchRefusal = (
    DuplicateCorrelation | IdConflict | LimitReached | ParentRefused | ThreadBusy | LetterGone | SameWork
)

_PARENT_FAULTS = {
    "CANCELLED": "it is being cancelled",
    "INTERRUPTED": "it was interrupted",
    "DEADLINE": "its deadline has passed",
    "STALE": "it has ended, or another attempt owns it",
    "ITERATION": "it has gone on to another iteration",
}
_LIMITS = {
    "max_live_children": (
        "number of live children of one run",
        "wait for some to end, or raise max_live_children and the launch's limits.max_children",
    ),
    "max_tree_children": (
        "number of runs ever launched below one run",
        "do the work in this run, or raise max_tree_children and the launch's limits.max_tree",
    ),
    "max_depth": (
        "depth of the tree",
        "do the work in this run, or raise max_depth and the launch's limits.max_depth",
    ),
}


def refusal(reply: LaunchRefusal, *, correlation_id: str | None = None) -> SubagentLifecycleError:
    """The error for a launch that the store refused; nothing was written.

    Args:
        correlation_id: The request's, for the message.
    """
    match reply:
        case LimitReached(name=name, limit=limit, live=live):
            what, mend = _LIMITS[name]
            depth = name == "max_depth"
            return SubagentLifecycleError(
                f"the {what} is at its limit" + ("" if live is None else f": there are {live}"),
                field=name,
                limit=str(limit),
                mend=mend,
                code=ErrorCode.DEPTH_EXCEEDED if depth else ErrorCode.CAPACITY_REACHED,
            )
        case DuplicateCorrelation(run_id=run_id, conflict=conflict):
            return SubagentLifecycleError(
                f"{correlation_id!r} is taken by the run {run_id}"
                + (", for another request" if conflict else ""),
                field="correlation_id",
                limit="unique within a session while its run is kept",
                mend='use another one, or on_duplicate="return" for the handle that an equal request got',
                code=ErrorCode.CORRELATION_CONFLICT if conflict else ErrorCode.DUPLICATE_CORRELATION,
            )
        case ParentRefused(reason=reason):
            return SubagentLifecycleError(
                f"the parent run may not launch: {_PARENT_FAULTS.get(reason, reason)}",
                field="parent",
                mend="launch before the run ends",
                code=ErrorCode.PARENT_ENDED,
            )
        case ThreadBusy(run_id=run_id):
            return SubagentLifecycleError(
                f"the run {run_id} is still writing to the conversation",
                field="conversation",
                limit="one live run at a time",
                mend="wait for the end of that run, or cancel it",
                code=ErrorCode.RUN_ACTIVE,
            )
        case SameWork(run_id=run_id):
            return SubagentLifecycleError(
                f"the run {run_id} above was asked to do just that",
                field="goal",
                limit="not the agent and goal of the parent, or of a run above it",
                mend="do the work in this run, or ask for a part of it",
                code=ErrorCode.DUPLICATE_WORK,
            )
        case LetterGone():
            return no_letter()
        case IdConflict(run_id=run_id):
            return SubagentLifecycleError(
                f"the run {run_id} was launched with another request",
                field="request",
                mend="a tool that is run again must launch the same children in the same order",
                code=ErrorCode.CORRELATION_CONFLICT,
            )


def no_letter() -> SubagentLifecycleError:
    """The error for a run that has no dead letter, for whatever reason."""
    return SubagentLifecycleError(
        "leads to no dead letter that is kept",
        field="run",
        limit="a run of this session that was given up in the last 7 days, and is not replayed yet",
        mend="see dead_letters() for those that are there",
        code=ErrorCode.UNKNOWN_HANDLE,
    )
