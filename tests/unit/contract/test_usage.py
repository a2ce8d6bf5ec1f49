from __future__ import annotations

import json
import pickle

import pytest

from retinue.contract import Usage


def test_sums_add_every_count_and_merge_the_tools_to_the_millisecond_and_the_micro_usd() -> None:
    total = Usage(
        model_calls=1,
        input_tokens=10,
        output_tokens=5,
        tools={"a": 1},
        tool_calls=1,
        tool_seconds={"a": 0.1},
        waiting_seconds=0.1,
        attempts=1,
        cost_usd=0.1,
    ) + Usage(
        model_calls=2,
        input_tokens=20,
        cached_tokens=4,
        reasoning_tokens=2,
        tools={"a": 2, "b": 1},
        tool_calls=3,
        tool_seconds={"a": 0.2, "b": 3.0},
        waiting_seconds=0.2,
        attempts=2,
        retries=4,
        cost_usd=0.2,
    )
    assert total.to_dict() == {
        "model_calls": 3,
        "retries": 4,
        "input_tokens": 30,
        "output_tokens": 5,
        "cached_tokens": 4,
        "reasoning_tokens": 2,
        "tool_calls": 4,
        "tools": {"a": 3, "b": 1},
        "tool_seconds": {"a": 0.3, "b": 3.0},
        "waiting_seconds": 0.3,
        "attempts": 3,
        "cost_usd": 0.3,
    }


def test_a_sum_with_an_unknown_cost_is_unknown_not_a_lower_bound() -> None:
    assert (Usage(cost_usd=1.0) + Usage()).cost_usd is None
    assert (Usage(cost_usd=0.0) + Usage(cost_usd=0.0)).cost_usd == 0.0


def test_usage_is_plain_json_and_survives_pickling() -> None:
    usage = Usage(tools={"search": 2}, tool_calls=2)
    assert json.loads(json.dumps(usage.to_dict()))["tools"] == {"search": 2}
    assert pickle.loads(pickle.dumps(usage)) == usage


def test_usage_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Usage().model_calls = 1  # pyright: ignore[reportAttributeAccessIssue]
