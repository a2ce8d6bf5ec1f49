from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from retinue.contract import (
    Budget,
    BudgetCap,
    BudgetStatus,
    OnSpent,
    SubagentLaunchRequest,
    SubagentLifecycleError,
    request_digest,
)


@pytest.mark.parametrize("amount", [2.5, "2.50", " 2.5 ", Decimal("2.500"), "25e-1"])
def test_money_is_taken_as_number_decimal_or_text_and_is_one_amount(amount: Any) -> None:
    request = SubagentLaunchRequest.parse(goal="g", budget={"usd": amount})
    assert request.budget == Budget(usd=2.5)
    assert request.budget is not None
    assert request.budget.caps == {"usd": 2_500_000}
    plain = SubagentLaunchRequest(goal="g", budget=Budget(usd=2.5))
    assert request_digest(request) == request_digest(plain)


@pytest.mark.parametrize("micro", [1, 10, 333_333, 1_000_001, 999_999_999_999])
def test_every_millionth_survives_the_way_through_json(micro: int) -> None:
    request = SubagentLaunchRequest.parse(goal="g", budget={"usd": Decimal(micro).scaleb(-6)})
    again = SubagentLaunchRequest.parse(json.loads(request.to_json()))
    assert again == request
    assert again.budget is not None
    assert again.budget.caps == {"usd": micro}


@pytest.mark.parametrize(
    ("budget", "field", "limit"),
    [
        ({"usd": 0}, "budget.usd", "more than 0"),
        ({"usd": -1}, "budget.usd", "more than 0"),
        ({"usd": "two"}, "budget.usd", "more than 0"),
        ({"usd": "0.0000001"}, "budget.usd", "millionths"),
        ({"usd": float("nan")}, "budget.usd", "more than 0"),
        ({"usd": float("inf")}, "budget.usd", "more than 0"),
        ({"usd": Decimal("sNaN")}, "budget.usd", "more than 0"),
        ({"usd": "1e999999999999999999"}, "budget.usd", "more than 0"),
        ({"usd": 10**5000}, "budget.usd", "more than 0"),
        ({"usd": 1_000_001}, "budget.usd", "1,000,000"),
        ({"usd": True}, "budget.usd", "a number"),
        ({"tokens": 0}, "budget.tokens", "1 to"),
        ({"input_tokens": 1.5}, "budget.input_tokens", "whole number"),
        ({"tool_calls": -1}, "budget.tool_calls", "0 to"),
        ({"wall_seconds": 0}, "budget.wall_seconds", "more than 0"),
        ({"tokens": 5, "on_spent": "explode"}, "budget.on_spent", "'pause' or 'stop'"),
        ({"dollars": 5}, "budget.dollars", "usd"),
        ({"on_spent": "stop"}, "budget", "one or more of"),
        ({}, "budget", "one or more of"),
        (5, "budget", "a Budget or a mapping"),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused_with_field_limit_and_mend(
    budget: Any, field: str, limit: str
) -> None:
    with pytest.raises(SubagentLifecycleError) as caught:
        SubagentLaunchRequest.parse(goal="g", budget=budget)
    assert caught.value.field == field
    assert limit in (caught.value.limit or "")
    assert caught.value.mend


def test_caps_are_counted_in_whole_units() -> None:
    budget = Budget(tokens=5, tool_calls=0, wall_seconds=0.5, on_spent=OnSpent.STOP)
    assert budget.caps == {"tokens": 5, "tool_calls": 0, "wall_seconds": 500}


def test_a_status_is_plain_json() -> None:
    status = BudgetStatus({"usd": BudgetCap(1.0, 0.25, 0.5, 0.25)}, OnSpent.PAUSE)
    assert json.loads(json.dumps(status.to_dict())) == {
        "usd": {"limit": 1.0, "used": 0.25, "held": 0.5, "left": 0.25},
        "on_spent": "pause",
    }
