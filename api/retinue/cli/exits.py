"""What the exit code of `retinue` says."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class ExitCode(IntEnum):
    """Every exit code of the command, the same for all of its commands."""

    OK = 0  # done; for a run: SUCCEEDED
    PROBLEM = 1  # refused, or something has to be mended first
    USAGE = 2  # the command line is wrong
    FAILED = 3  # the run FAILED
    CANCELLED = 4  # the run was CANCELLED
    INTERRUPTED = 5  # the run was INTERRUPTED: cut by a limit or a soft interrupt
    NOT_READY = 6  # the run has not ended, or the wait was over first
    UNKNOWN_HANDLE = 7  # the handle leads to no run: malformed, forged, foreign or expired
    STORE_UNAVAILABLE = 8  # the store does not answer


EXIT_OF_STATE: Final[Mapping[str, ExitCode]] = {
    "SUCCEEDED": ExitCode.OK,
    "FAILED": ExitCode.FAILED,
    "CANCELLED": ExitCode.CANCELLED,
    "INTERRUPTED": ExitCode.INTERRUPTED,
    "UNKNOWN": ExitCode.UNKNOWN_HANDLE,
}


def exit_of_state(state: str) -> ExitCode:
    """The exit code for a run in this state; NOT_READY for one that has not ended."""
    return EXIT_OF_STATE.get(state, ExitCode.NOT_READY)


def exit_of_error(error: BaseException) -> ExitCode:
    """The exit code for an error that Retinue raised on purpose."""
    from retinue.contract import ErrorCode, StoreUnavailableError, SubagentLifecycleError

    if isinstance(error, StoreUnavailableError):
        return ExitCode.STORE_UNAVAILABLE
    if isinstance(error, SubagentLifecycleError) and error.code is ErrorCode.STORE_UNAVAILABLE:
        return ExitCode.STORE_UNAVAILABLE
    if isinstance(error, SubagentLifecycleError) and error.code is ErrorCode.UNKNOWN_HANDLE:
        return ExitCode.UNKNOWN_HANDLE
    return ExitCode.PROBLEM
