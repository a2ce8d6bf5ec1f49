"""Budgets through the facade in both colours: how they stand, who is told, what a raise does."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from tests.integration.client.conftest import Facades
from tests.integration.client.store_worker import StoreWorker
from tests.integration.client.test_deciding import queued

from retinue.broker.settings.sections import BudgetSettings
from retinue.contract import BudgetRaise, OnSpent, Phase, SubagentLifecycleError, SubagentState
from retinue.store.operations.budgets import Reservation

ASK = Reservation(100, 10, 2_000_000, 0)


def test_a_status_shows_how_the_budget_stands(lifecycle: Any, worker: StoreWorker) -> None:
    handle = lifecycle.launch(agent="support", goal="g", budget={"usd": "1.50", "tool_calls": 3})
    assert lifecycle.status(handle).to_dict()["budget"] == {
        "usd": {"limit": 1.5, "used": 0.0, "held": 0.0, "left": 1.5},
        "tool_calls": {"limit": 3, "used": 0, "held": 0, "left": 3},
        "on_spent": "pause",
    }
    assert lifecycle.list()[0].budget == lifecycle.status(handle).budget
    assert lifecycle.status(lifecycle.launch(agent="support", goal="without")).budget is None


def test_a_pause_is_told_to_who_waits_and_a_raise_wakes_the_run(lifecycle: Any, worker: StoreWorker) -> None:
    handle = lifecycle.launch(agent="support", goal="g", budget={"usd": 1})
    worker.pause(handle, ASK)
    asked = lifecycle.wait(handle, timeout_seconds=20, until="asked")
    assert (asked.completed, asked.timed_out) == (False, False)
    assert "raise_budget" in asked.diagnostic
    assert lifecycle.status(handle).phase is Phase.PAUSED_BUDGET

    before = queued(worker, handle.subagent_id)
    raised = lifecycle.raise_budget(handle.to_dict(), usd=Decimal("2.5"))
    assert (raised.accepted, raised.woken) == (True, 1)
    assert raised.budget.caps["usd"].left == 2.5
    assert queued(worker, handle.subagent_id) == before + 1
    again = lifecycle.raise_budget(handle, usd=2.5)
    assert (again.accepted, again.woken) == (True, 0), "a repeat changes nothing"
    worker.finish(handle, worker.claim(handle))
    assert lifecycle.raise_budget(handle, usd=3) == BudgetRaise(accepted=False, already_terminal=True)


def test_a_raise_that_makes_no_sense_says_why(lifecycle: Any, worker: StoreWorker) -> None:
    handle = lifecycle.launch(agent="support", goal="g", budget={"usd": 1})
    plain = lifecycle.launch(agent="support", goal="without")
    for target, caps, field in (
        (handle, {"usd": 0.5}, "usd"),
        (handle, {"tokens": 5}, "tokens"),
        (handle, {"dollars": 5}, "dollars"),
        (handle, {}, "budget"),
        (plain, {"usd": 5}, "budget"),
    ):
        with pytest.raises(SubagentLifecycleError) as caught:
            lifecycle.raise_budget(target, **caps)
        assert caught.value.field == field


def test_a_handle_that_is_not_the_sessions_raises_nothing(
    lifecycle: Any, facades: Facades, worker: StoreWorker
) -> None:
    handle = lifecycle.launch(agent="support", goal="g", budget={"usd": 1})
    for stranger in (facades("another"), facades(tenant="t2")):
        assert stranger.raise_budget(handle, usd=5) == BudgetRaise.unknown()
    assert lifecycle.raise_budget("no handle", usd=5) == BudgetRaise.unknown()
    assert lifecycle.status(handle).budget.caps["usd"].limit == 1.0


def test_the_settings_budget_is_that_of_roots_without_one(facades: Facades, worker: StoreWorker) -> None:
    settings = BudgetSettings(tokens=500, on_spent=OnSpent.STOP)
    lifecycle = facades(budget=settings)
    by_default = lifecycle.status(lifecycle.launch(agent="support", goal="g")).budget
    assert (list(by_default.caps), by_default.on_spent) == (["tokens"], OnSpent.STOP)
    own = lifecycle.status(lifecycle.launch(agent="support", goal="h", budget={"usd": 1})).budget
    assert list(own.caps) == ["usd"]


def test_a_paused_run_is_cancelled_at_once(lifecycle: Any, worker: StoreWorker) -> None:
    handle = lifecycle.launch(agent="support", goal="g", budget={"usd": 1})
    worker.pause(handle, ASK)
    assert lifecycle.cancel(handle).accepted
    assert lifecycle.result(handle).terminal_state is SubagentState.CANCELLED
