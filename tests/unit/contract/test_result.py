from __future__ import annotations

import hashlib
import json
import math
import pickle
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.contract import (
    ERROR_MAX_CHARS,
    PAYLOAD_MAX_BYTES,
    SUMMARY_MAX_CHARS,
    TERMINAL_STATES,
    ErrorClassification,
    HandleKey,
    Keyring,
    SteerReceipt,
    SteerState,
    SubagentHandle,
    SubagentLifecycleError,
    SubagentResult,
    SubagentState,
    bound_text,
    new_run_id,
)

RING = Keyring([HandleKey("k1", b"s" * 32)])


def make_handle() -> SubagentHandle:
    return RING.mint(
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


HANDLE = make_handle()


def ended(handle: SubagentHandle = HANDLE, **changes: Any) -> SubagentResult:
    given_fields: dict[str, Any] = {
        "started_at": 2.0,
        "completed_at": 3.5,
        "summary": "Yes, within 30 days.",
        "structured_payload": {"days": 30},
        "usage_metadata": {"input_tokens": 10},
        "tool_execution_summary": {"search": 1},
        "metadata": {"ticket": 9001},
        "steers": (SteerReceipt(steer_id="s1", state=SteerState.MISSED),),
    }
    state = changes.pop("state", SubagentState.SUCCEEDED)
    return SubagentResult.ended(handle, state, **{**given_fields, **changes})


def test_a_result_is_plain_json_with_every_field() -> None:
    as_json = json.loads(json.dumps(ended().to_dict()))
    assert as_json == ended().to_dict()
    assert set(as_json) == {field.name for field in fields(SubagentResult)}
    assert pickle.loads(pickle.dumps(ended())) == ended()


def test_the_holder_of_a_result_can_compute_its_hash_again() -> None:
    envelope = json.loads(json.dumps(ended().to_dict()))
    claimed = envelope.pop("result_hash")
    assert claimed == hashlib.sha256(json.dumps(envelope, sort_keys=True).encode()).hexdigest()


@pytest.mark.parametrize(
    "name", sorted(field.name for field in fields(SubagentResult) if field.name != "result_hash")
)
def test_the_result_hash_covers_every_other_field(name: str) -> None:
    other: dict[str, Any] = {
        "handle": None,
        "terminal_state": SubagentState.FAILED,
        "error_classification": ErrorClassification.TOOL_ERROR,
        "ready": False,
        "truncated": True,
        "steers": (),
    }
    changed = replace(ended(), **{name: other.get(name, {"x": 1})})
    assert changed.compute_result_hash() != ended().result_hash


def test_equal_work_has_an_equal_content_hash_and_another_result_hash() -> None:
    one = ended()
    two = ended(make_handle(), completed_at=9.0, usage_metadata={}, steers=(), metadata={})
    assert one.content_hash == two.content_hash
    assert one.result_hash != two.result_hash


@pytest.mark.parametrize(
    "changes",
    [
        {"state": SubagentState.INTERRUPTED},
        {"summary": "No."},
        {"structured_payload": None},
        {"error_classification": ErrorClassification.MAX_ITERATIONS},
        {"error_message": "over"},
    ],
)
def test_other_work_has_another_content_hash(changes: dict[str, Any]) -> None:
    assert ended(**changes).content_hash != ended().content_hash


def test_a_result_read_twice_is_the_same() -> None:
    assert ended() == ended()


def test_texts_at_their_limit_are_kept_whole() -> None:
    result = ended(summary="é" * SUMMARY_MAX_CHARS, error_message="é" * ERROR_MAX_CHARS)
    assert result.summary == "é" * SUMMARY_MAX_CHARS
    assert not result.truncated


@pytest.mark.parametrize(
    ("name", "largest"), [("summary", SUMMARY_MAX_CHARS), ("error_message", ERROR_MAX_CHARS)]
)
def test_a_longer_text_is_cut_with_a_visible_marker(name: str, largest: int) -> None:
    too_long: dict[str, Any] = {name: "x" * (largest + 1)}
    result = ended(**too_long)
    text = getattr(result, name)
    assert len(text) == largest
    assert text.endswith(f"\n[cut: the full text has {largest + 1:,} characters]")
    assert result.truncated


def test_a_payload_that_is_too_large_is_left_out_whole() -> None:
    fits = "x" * (PAYLOAD_MAX_BYTES - 2)
    assert ended(structured_payload=fits).structured_payload == fits
    result = ended(structured_payload=fits + "x")
    assert result.structured_payload is None
    assert result.truncated


def test_a_payload_that_is_no_strict_json_does_not_make_the_result_unreadable() -> None:
    assert ended(structured_payload={"x": math.nan, "y": "\ud800"}).content_hash


def test_a_text_cut_by_the_caller_counts_as_truncated() -> None:
    assert ended(truncated=True).truncated


@given(st.text(st.characters(), max_size=200), st.integers(0, 100))
def test_a_bound_text_fits_and_can_be_written(text: str, largest: int) -> None:
    kept, cut = bound_text(text, largest)
    kept.encode()
    assert len(kept) <= largest
    assert cut or len(kept) <= len(text)


def test_a_lone_surrogate_becomes_one_replacement_character() -> None:
    assert bound_text("a\ud800b", 10) == ("a\ufffdb", False)
    assert bound_text("日本", 10) == ("日本", False)


@pytest.mark.parametrize("state", sorted(set(SubagentState) - TERMINAL_STATES))
def test_only_a_terminal_state_makes_a_result(state: SubagentState) -> None:
    with pytest.raises(SubagentLifecycleError, match="terminal_state"):
        ended(state=state)


def test_the_result_of_a_run_that_goes_on_is_not_ready() -> None:
    result = SubagentResult.not_ready(HANDLE, SubagentState.RUNNING)
    assert (result.handle, result.ready, result.terminal_state) == (HANDLE, False, SubagentState.RUNNING)
    assert result.error_classification is ErrorClassification.NOT_READY
    assert result.result_hash is None


@pytest.mark.parametrize("value", [None, 42, {}, object()])
def test_the_result_of_an_unknown_handle_is_not_ready_whatever_was_given(value: object) -> None:
    result = SubagentResult.unknown(value)
    assert (result.handle, result.ready, result.terminal_state) == (None, False, SubagentState.UNKNOWN)
    assert result.error_classification is ErrorClassification.UNKNOWN_HANDLE
    assert SubagentResult.unknown(HANDLE.to_dict()).handle == HANDLE


def test_a_result_cannot_be_changed_and_later_changes_of_its_parts_do_not_reach_it() -> None:
    metadata = {"a": 1}
    result = ended(metadata=metadata)
    metadata["b"] = 2
    assert result.metadata == {"a": 1}
    with pytest.raises(AttributeError):
        result.summary = "No."  # pyright: ignore[reportAttributeAccessIssue]


def test_no_output_and_no_capability_stand_in_the_repr() -> None:
    secret = "hush-hush"
    result = ended(summary=secret, error_message=secret, structured_payload=secret, metadata={"k": secret})
    assert secret not in repr(result)
    assert HANDLE.capability not in repr(result)
