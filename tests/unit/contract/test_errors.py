from __future__ import annotations

import copy
import pickle

import pytest

from retinue.contract import (
    AgentSpecError,
    DeclarationError,
    ErrorCode,
    HandleKey,
    Keyring,
    RetinueError,
    SettingsError,
    StaleFenceError,
    StoreError,
    StoreMemoryError,
    StoreReplyError,
    StoreUnavailableError,
    SubagentLifecycleError,
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

ERRORS = [
    SubagentLifecycleError(
        "is taken",
        field="correlation_id",
        limit="one run",
        mend="choose another",
        code=ErrorCode.LAUNCH_UNKNOWN,
        handle=HANDLE,
    ),
    DeclarationError("is blank", field="name", limit="64 characters", mend="name it"),
    AgentSpecError("is a Flow", field="component_type", mend="use an Agent"),
    SettingsError("is missing", setting="RETINUE_STORE_URL", mend="set it"),
    StoreError("no"),
    StoreUnavailableError("gone", sent=True, timed_out=True),
    StoreMemoryError("full"),
    StaleFenceError("epoch 3 is over", run_id=HANDLE.subagent_id),
    StoreReplyError("WRONGTYPE"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_survives_pickling_with_all_its_fields(error: RetinueError, protocol: int) -> None:
    again = pickle.loads(pickle.dumps(error, protocol))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.args == error.args
    assert vars(again) == vars(error)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_survives_copying(error: RetinueError) -> None:
    assert vars(copy.deepcopy(error)) == vars(error)


def test_every_error_shares_one_base_and_ends_in_error() -> None:
    assert all(isinstance(error, RetinueError) and type(error).__name__.endswith("Error") for error in ERRORS)


def test_a_lifecycle_error_and_a_declaration_error_are_value_errors() -> None:
    assert issubclass(SubagentLifecycleError, ValueError)
    assert issubclass(AgentSpecError, ValueError)


def test_a_lifecycle_error_says_field_limit_and_mend() -> None:
    error = SubagentLifecycleError("has 9 parts", field="goal", limit="at most 8 parts", mend="drop one")
    assert str(error) == "goal: has 9 parts (limit: at most 8 parts). To mend: drop one."
    assert (error.field, error.limit, error.mend) == ("goal", "at most 8 parts", "drop one")
    assert (error.code, error.handle) == (ErrorCode.INVALID_REQUEST, None)


def test_a_launch_whose_outcome_is_unknown_gives_its_handle() -> None:
    error = SubagentLifecycleError("no reply", code=ErrorCode.LAUNCH_UNKNOWN, handle=HANDLE)
    assert (error.code, error.handle) == (ErrorCode.LAUNCH_UNKNOWN, HANDLE)


def test_an_error_without_fields_is_just_its_message() -> None:
    assert str(SubagentLifecycleError("no session")) == "no session"
    assert str(SettingsError("no store")) == "no store"


def test_a_settings_error_says_setting_and_mend() -> None:
    error = SettingsError("is missing", setting="RETINUE_STORE_URL", mend="set it or run `retinue up`")
    assert str(error) == "RETINUE_STORE_URL: is missing. To mend: set it or run `retinue up`."


def test_an_error_that_carries_a_handle_does_not_print_its_capability() -> None:
    assert HANDLE.capability not in str(ERRORS[0]) + repr(ERRORS[0])


def test_a_quoted_sentence_keeps_one_full_stop_before_the_mend() -> None:
    error = SettingsError("pyagentspec says: no such field.", mend="take it out.")
    assert str(error) == "pyagentspec says: no such field. To mend: take it out."
