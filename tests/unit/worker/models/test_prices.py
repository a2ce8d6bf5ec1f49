"""Prices: whole micro-USD, rounded up; unknown is None and never zero."""

from __future__ import annotations

import socket
import subprocess
import sys
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.broker.settings import Settings
from retinue.worker.models import ModelUsage, Provider
from retinue.worker.models.prices import Prices, setting_of

OPENAI = Provider(name="openai", base_url="https://api.openai.com/v1")
OWN = {"input": "0.15", "output": 0.6, "cached": 0.075}


def _prices(prices: dict[str, Any] | None = None, **providers: Any) -> Prices:
    return Prices(Settings.read(prices=prices or {}, providers=providers))


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("prices come from the installed package")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def test_an_own_price_is_micro_usd_per_token() -> None:
    cost = _prices({"m": OWN}).cost(OPENAI, "m", ModelUsage(1_000_000, 1_000_000))
    assert cost == 150_000 + 600_000


def test_cached_tokens_are_part_of_the_input_and_have_a_price_of_their_own() -> None:
    assert _prices({"m": OWN}).cost(OPENAI, "m", ModelUsage(1_000, 0, cached_tokens=400)) == 90 + 30
    without = {"m": {"input": 2, "output": 3}}
    assert _prices(without).cost(OPENAI, "m", ModelUsage(1_000, 0, cached_tokens=400)) == 2_000


def test_reasoning_tokens_are_part_of_the_output_and_are_not_paid_twice() -> None:
    prices = _prices({"m": OWN})
    assert prices.cost(OPENAI, "m", ModelUsage(0, 1_000, reasoning_tokens=900)) == 600


@given(
    tokens=st.integers(0, 10**7),
    out=st.integers(0, 10**7),
    cached=st.integers(0, 2 * 10**7),
    price=st.decimals(0, 100, places=4),
)
def test_a_cost_is_the_least_whole_number_that_covers_it(
    tokens: int, out: int, cached: int, price: Decimal
) -> None:
    own = {"m": {"input": price, "output": price, "cached": price / 2}}
    cost = _prices(own).cost(OPENAI, "m", ModelUsage(tokens, out, cached_tokens=cached))
    exact = (tokens + out) * price - min(cached, tokens) * price / 2
    assert cost is not None
    assert cost - 1 < exact <= cost


def test_a_price_of_zero_is_known() -> None:
    assert _prices({"m": {"input": 0, "output": 0}}).cost(OPENAI, "m", ModelUsage(5, 5)) == 0


def test_the_price_for_one_provider_wins_over_that_for_the_model() -> None:
    own = {"m": {"input": 1, "output": 1}, "openai/m": {"input": 2, "output": 2}}
    assert _prices(own).cost(OPENAI, "m", ModelUsage(10, 0)) == 20


def test_an_own_price_wins_over_the_list() -> None:
    own = {"gpt-4o": {"input": 1, "output": 1}}
    assert _prices(own).cost(OPENAI, "gpt-4o", ModelUsage(10, 10)) == 20


def test_a_listed_price_counts_cached_tokens_as_the_list_does() -> None:
    prices = _prices()
    # 2.50 in, 1.25 cached, 10.00 out.
    usage = ModelUsage(1_000, 100, cached_tokens=400, reasoning_tokens=60)
    assert prices.cost(OPENAI, "gpt-4o", usage) == 1_500 + 500 + 1_000
    assert prices.estimate(OPENAI, "gpt-4o", 1_000, 100) == 2_500 + 1_000


def test_reasoning_that_costs_less_than_other_output_is_counted_so() -> None:
    perplexity = Provider(name="p", base_url="https://api.perplexity.ai")
    usage = ModelUsage(1_000, 1_000, reasoning_tokens=600)
    assert _prices().cost(perplexity, "sonar-deep-research", usage) == 2_000 + 400 * 8 + 600 * 3


def test_a_listed_fraction_of_a_micro_usd_is_rounded_up() -> None:
    assert _prices().cost(OPENAI, "gpt-4o", ModelUsage(1, 0)) == 3


def test_a_server_that_counts_more_cached_than_input_tokens_is_still_priced() -> None:
    usage = ModelUsage(100, 10, cached_tokens=999, reasoning_tokens=999)
    assert _prices().cost(OPENAI, "gpt-4o", usage) == 125 + 100


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        (OPENAI, "no-such-model"),
        (Provider(name="mine", base_url="https://models.example.com/v1"), "gpt-4o"),
        # A server of one's own, whatever it is called.
        (Provider(name="openai", base_url="http://127.0.0.1:8000/v1"), "gpt-4o"),
        (Provider(name="openai", base_url="http://vllm:8000/v1"), "gpt-4o"),
        # Listed, but nobody has entered a price.
        (Provider(name="copilot", base_url="https://api.githubcopilot.com"), "gpt-4o"),
        # A document's endpoint that is named like a provider.
        (Provider(name="groq", base_url="https://models.example.com/v1"), "llama-3.3-70b-versatile"),
    ],
    ids=["model", "provider", "loopback", "own host", "no price", "document"],
)
def test_what_is_not_known_is_none_and_never_zero(provider: Provider, model: str) -> None:
    prices = _prices()
    assert prices.cost(provider, model, ModelUsage(1_000, 100)) is None
    assert prices.estimate(provider, model, 1_000, 100) is None


def test_a_model_that_is_only_listed_for_input_is_unknown_once_it_answers() -> None:
    assert _prices().cost(OPENAI, "text-embedding-3-small", ModelUsage(1_000, 1)) is None


def test_a_server_that_does_not_count_has_an_unknown_cost() -> None:
    assert _prices({"m": OWN}).cost(OPENAI, "m", None) is None


def test_a_gateway_is_priced_as_the_provider_that_it_is_named_after() -> None:
    url = "https://llm.example.com/v1"
    gateway = Provider(name="openai", base_url=url)
    assert _prices(openai={"base_url": url}).cost(gateway, "gpt-4o", ModelUsage(1_000, 0)) == 2_500


def test_a_setting_says_whose_prices_hold() -> None:
    url = "http://127.0.0.1:4000/v1"
    proxy = Provider(name="proxy", base_url=url)
    prices = _prices(proxy={"base_url": url, "priced_as": "openai"})
    assert prices.cost(proxy, "gpt-4o", ModelUsage(1_000, 0)) == 2_500


def test_the_service_tier_of_a_provider_has_its_own_price() -> None:
    flex = Provider(name="openai", base_url=OPENAI.base_url, overrides={"service_tier": "flex"})
    prices = _prices()
    standard = prices.estimate(OPENAI, "o3", 1_000, 1_000)
    assert standard is not None
    assert prices.estimate(flex, "o3", 1_000, 1_000) == standard // 2


def test_a_price_has_a_setting_that_can_be_named() -> None:
    assert setting_of("gpt-9") == 'prices."gpt-9"'


def test_the_list_is_not_read_for_servers_of_ones_own() -> None:
    code = (
        "import sys\n"
        "from retinue.broker.settings import Settings\n"
        "from retinue.worker.models import ModelUsage, Provider\n"
        "from retinue.worker.models.prices import Prices\n"
        "p = Prices(Settings.read(providers={'local': {'base_url': 'http://127.0.0.1:1/v1'}}))\n"
        "p.cost(Provider(name='local', base_url='http://127.0.0.1:1/v1'), 'm', ModelUsage(1, 1))\n"
        "assert 'genai_prices' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
