from __future__ import annotations

import pytest

from retinue.cli.app import app
from retinue.cli.exits import ExitCode, exit_of_error, exit_of_state
from retinue.contract import (
    TERMINAL_STATES,
    ErrorCode,
    SettingsError,
    StoreUnavailableError,
    SubagentLifecycleError,
    SubagentState,
)


def test_each_terminal_state_has_an_exit_code_of_its_own() -> None:
    codes = {exit_of_state(state) for state in TERMINAL_STATES}

    assert len(codes) == len(TERMINAL_STATES)
    assert ExitCode.NOT_READY not in codes


@pytest.mark.parametrize("state", sorted(set(SubagentState) - TERMINAL_STATES - {SubagentState.UNKNOWN}))
def test_a_run_that_goes_on_is_not_ready(state: SubagentState) -> None:
    assert exit_of_state(state) is ExitCode.NOT_READY


def test_an_unknown_run_is_an_unknown_handle() -> None:
    assert exit_of_state(SubagentState.UNKNOWN) is ExitCode.UNKNOWN_HANDLE


def test_a_silent_store_is_told_from_a_refusal() -> None:
    silent = SubagentLifecycleError("silent", code=ErrorCode.STORE_UNAVAILABLE)

    assert exit_of_error(StoreUnavailableError("silent")) is ExitCode.STORE_UNAVAILABLE
    assert exit_of_error(silent) is ExitCode.STORE_UNAVAILABLE
    assert exit_of_error(SubagentLifecycleError("no")) is ExitCode.PROBLEM
    assert exit_of_error(SettingsError("no")) is ExitCode.PROBLEM


def test_the_help_tells_every_exit_code() -> None:
    epilog = app.info.epilog or ""

    assert all(f" {code.value} " in epilog for code in ExitCode)
