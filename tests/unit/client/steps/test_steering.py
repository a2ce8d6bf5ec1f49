"""Which messages are taken, and what the store's answers mean."""

from __future__ import annotations

import pytest

from retinue.client import ErrorCode, SteerState, SubagentLifecycleError
from retinue.client.steps.steering import (
    checked_reason,
    checked_steer_id,
    checked_text,
    new_steer_id,
    receipt,
)
from retinue.store.operations.control import SteerReply


@pytest.mark.parametrize("value", ["", "\t", None, 7, b"x", "x" * 32_001, "\ud800"])
def test_improper_text_is_refused_without_being_repeated(value: object) -> None:
    with pytest.raises(SubagentLifecycleError) as caught:
        checked_text(value)
    assert caught.value.field == "text"
    assert "xxx" not in str(caught.value)


def test_a_message_loses_its_outer_blanks_only() -> None:
    assert checked_text(" two\nlines ") == "two\nlines"
    assert len(checked_text("x" * 32_000)) == 32_000


@pytest.mark.parametrize("value", ["", "a b", "ä", "x" * 65, 5, None, "a\n"])
def test_a_steer_id_is_short_and_plain(value: object) -> None:
    with pytest.raises(SubagentLifecycleError) as caught:
        checked_steer_id(value)
    assert caught.value.field == "steer_id"


def test_fresh_steer_ids_differ_and_pass_their_own_check() -> None:
    first, second = new_steer_id(), new_steer_id()
    assert first != second
    assert checked_steer_id(first) == first


def test_a_reason_is_cut() -> None:
    assert checked_reason(None) == ""
    assert len(checked_reason("x" * 900)) == 500


@pytest.mark.parametrize(
    ("outcome", "detail", "state", "iteration"),
    [
        ("QUEUED", "", SteerState.QUEUED, None),
        ("KNOWN", "q", SteerState.QUEUED, None),
        ("KNOWN", "d12", SteerState.DELIVERED, 12),
        ("KNOWN", "m", SteerState.MISSED, None),
        ("TERMINAL", "", SteerState.MISSED, None),
        ("CANCELLED", "", SteerState.MISSED, None),
        ("UNSUPPORTED", "", SteerState.UNSUPPORTED, None),
        ("UNKNOWN", "", SteerState.UNKNOWN, None),
    ],
)
def test_each_answer_of_the_store_has_its_receipt(
    outcome: str, detail: str, state: SteerState, iteration: int | None
) -> None:
    found = receipt("s1", "Hi.", SteerReply(outcome, detail))
    assert (found.state, found.iteration) == (state, iteration)
    assert found.text == ("Hi." if state is SteerState.MISSED else None), "to be sent again"
    assert found.steer_id == ("s1" if outcome in ("QUEUED", "KNOWN") else "")


def test_a_run_that_takes_no_more_is_an_error_with_the_limit() -> None:
    with pytest.raises(SubagentLifecycleError) as caught:
        receipt("s1", "Hi.", SteerReply("CAPACITY", "1000"))
    assert (caught.value.code, caught.value.limit) == (ErrorCode.CAPACITY_REACHED, "1000")
