from __future__ import annotations

from typing import Any

import pytest

from retinue.client.facade.budgeting import checked_caps, raise_of
from retinue.contract import BudgetRaise, SubagentLifecycleError
from retinue.store.operations.budgets import NotRaised, Raised


def test_caps_are_named_and_written_as_in_a_budget() -> None:
    asked: dict[str, Any] = {"usd": "2.50", "tokens": 10, "wall_seconds": 1.5, "tool_calls": None}
    assert checked_caps(asked) == {"usd": 2_500_000, "tokens": 10, "wall_seconds": 1_500}


@pytest.mark.parametrize("caps", [{}, {"usd": None}, {"on_spent": "stop"}, {"dollars": 3}, {"usd": "much"}])
def test_what_raises_nothing_is_refused(caps: dict[str, object]) -> None:
    with pytest.raises(SubagentLifecycleError) as caught:
        checked_caps(caps)
    assert caught.value.limit


def test_a_raise_answers_how_the_budget_stands() -> None:
    account = {
        "m": "p",
        "cu": "2000000",
        "uu": "500000",
        "hu": "100000",
        "cw": "9000",
        "cr": "1000",
        "id": "sa",
    }
    answer = raise_of(Raised(account, (), 4_000), {"usd": 2_000_000})
    assert answer.accepted
    assert answer.budget is not None
    assert answer.budget.to_dict() == {
        "usd": {"limit": 2.0, "used": 0.5, "held": 0.1, "left": 1.4},
        "wall_seconds": {"limit": 9.0, "used": 3.0, "held": 0.0, "left": 6.0},
        "on_spent": "pause",
    }


@pytest.mark.parametrize(
    ("reply", "field", "limit"),
    [
        (NotRaised("NO_BUDGET"), "budget", "launched with one"),
        (NotRaised("NO_CAP", "tokens"), "tokens", "launched with"),
        (NotRaised("LOWER", "usd", 3_000_000), "usd", "3.0 or more"),
    ],
)
def test_a_raise_that_would_raise_nothing_says_why(reply: NotRaised, field: str, limit: str) -> None:
    with pytest.raises(SubagentLifecycleError) as caught:
        raise_of(reply, {"usd": 2_000_000, "tokens": 5})
    assert (caught.value.field, limit in (caught.value.limit or "")) == (field, True)


def test_a_handle_that_leads_nowhere_never_raises() -> None:
    assert raise_of(NotRaised("UNKNOWN"), {}) == BudgetRaise(accepted=False, unknown_handle=True)
    assert raise_of(NotRaised("TERMINAL"), {}) == BudgetRaise(accepted=False, already_terminal=True)
