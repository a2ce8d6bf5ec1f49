from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from retinue.broker.settings.sections import BudgetSettings
from retinue.store.operations.budgets import Reservation
from retinue.worker.models import ModelRequest, Provider, ToolSchema
from retinue.worker.run import reserving

PROVIDER = Provider(name="p", base_url="http://p/v1")


def _estimate(_provider: Provider, _model: str, input_tokens: int, output_tokens: int) -> int:
    """Two micro-USD an input token, ten an output token."""
    return 2 * input_tokens + 10 * output_tokens


def reserved(
    monkeypatch: pytest.MonkeyPatch,
    request: ModelRequest,
    *,
    budgeted: bool = True,
    measured: tuple[int, int] | None = None,
    estimate: Callable[..., int | None] = _estimate,
) -> Reservation | None:
    monkeypatch.setattr(reserving, "model_request", lambda *_: request)
    settings = SimpleNamespace(budget=BudgetSettings(estimated_output_tokens=1_000))
    services: Any = SimpleNamespace(settings=settings, prices=SimpleNamespace(estimate=estimate))
    run: Any = SimpleNamespace(record=SimpleNamespace(is_budgeted=budgeted), measured=measured)
    return reserving.reservation(services, run)


def request(*entries: str, params: Mapping[str, object] | None = None, **provider: Any) -> ModelRequest:
    return ModelRequest(
        provider=Provider(name="p", base_url="http://p/v1", **provider) if provider else PROVIDER,
        model="m",
        system="s" * 30,
        entries=entries,
        tools=(ToolSchema("t", "d" * 6, {}),),
        params=params or {},
    )


def test_without_a_budget_nothing_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reserved(monkeypatch, request("x"), budgeted=False) is None


def test_all_that_is_sent_counts_a_token_for_three_bytes_or_less(monkeypatch: pytest.MonkeyPatch) -> None:
    found = reserved(monkeypatch, request("x" * 301, "ü" * 3))
    tokens = 10 + 3 + 101 + 2
    assert found == Reservation(tokens, 1_000, 2 * tokens + 10_000, 200_000)


def test_what_a_response_was_counted_with_is_taken_as_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    found = reserved(monkeypatch, request("x" * 9_000, "y" * 30), measured=(1, 500))
    assert found is not None
    assert found.input_tokens == 510


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "max_output_tokens"])
def test_the_limit_of_an_answer_is_what_is_reserved_for_it(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    found = reserved(monkeypatch, request("x", params={name: 77}))
    assert found is not None
    assert found.output_tokens == 77
    overridden = reserved(monkeypatch, request("x", params={name: 77}, overrides={name: 5_000}))
    assert overridden is not None
    assert overridden.output_tokens == 5_000


def test_a_price_that_is_not_known_is_none_and_not_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    found = reserved(monkeypatch, request("x"), estimate=lambda *_: None)
    assert found is not None
    assert (found.micro_usd, found.input_price) == (None, 0)
    assert found.argv()[2] == ""
