"""What the store's refusals say to the caller."""

from __future__ import annotations

import pytest

from retinue.client import ErrorCode
from retinue.client.launching.faults import LaunchRefusal, refusal
from retinue.store.operations.launching import (
    DuplicateCorrelation,
    IdConflict,
    LimitReached,
    ParentRefused,
    SameWork,
    ThreadBusy,
)


@pytest.mark.parametrize(
    ("reply", "code", "field", "words"),
    [
        (
            LimitReached("max_live_children", 20, 20),
            ErrorCode.CAPACITY_REACHED,
            "max_live_children",
            "there are 20",
        ),
        (LimitReached("max_tree_children", 9, 9), ErrorCode.CAPACITY_REACHED, "max_tree_children", "below"),
        (LimitReached("max_depth", 4, None), ErrorCode.DEPTH_EXCEEDED, "max_depth", "depth"),
        (
            DuplicateCorrelation("sa-1", same=False, conflict=False),
            ErrorCode.DUPLICATE_CORRELATION,
            "correlation_id",
            "sa-1",
        ),
        (
            DuplicateCorrelation("sa-1", same=False, conflict=True),
            ErrorCode.CORRELATION_CONFLICT,
            "correlation_id",
            "another request",
        ),
        (ParentRefused("CANCELLED"), ErrorCode.PARENT_ENDED, "parent", "cancelled"),
        (ParentRefused("DEADLINE"), ErrorCode.PARENT_ENDED, "parent", "deadline"),
        (ParentRefused("STALE"), ErrorCode.PARENT_ENDED, "parent", "another attempt"),
        (ParentRefused("ITERATION"), ErrorCode.PARENT_ENDED, "parent", "another iteration"),
        (ThreadBusy("sa-1"), ErrorCode.RUN_ACTIVE, "conversation", "sa-1"),
        (SameWork("sa-1"), ErrorCode.DUPLICATE_WORK, "goal", "sa-1"),
        (IdConflict("sa-1"), ErrorCode.CORRELATION_CONFLICT, "request", "sa-1"),
    ],
)
def test_each_refusal_names_code_field_and_mend(
    reply: LaunchRefusal, code: ErrorCode, field: str, words: str
) -> None:
    error = refusal(reply, correlation_id="c1")
    assert (error.code, error.field) == (code, field)
    assert words in str(error)
    assert error.mend


@pytest.mark.parametrize(
    ("limit", "option"),
    [
        ("max_live_children", "limits.max_children"),
        ("max_tree_children", "limits.max_tree"),
        ("max_depth", "limits.max_depth"),
    ],
)
def test_a_limit_is_named_as_the_settings_and_as_a_launch_have_it(limit: str, option: str) -> None:
    mend = str(refusal(LimitReached(limit, 2, 2)).mend)
    assert f"raise {limit} " in mend
    assert option in mend


def test_a_limit_is_named_with_its_number() -> None:
    assert refusal(LimitReached("max_live_children", 20, 20)).limit == "20"
