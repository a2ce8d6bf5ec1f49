"""What model requests cost, in whole micro-USD: the settings' own prices first, then those of genai-prices.

The package's data is part of its release: nothing is fetched. A price that is not known is None, and so is
the cost of whatever it was for; it is never taken for zero.
"""

from __future__ import annotations

import ipaddress
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from retinue.broker.settings import Settings
from retinue.broker.settings.providers import PriceSettings
from retinue.worker.models import ModelUsage, Provider

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice, Usage

_MICRO: Final = 1_000_000
_PRIVATE_NAMES: Final = (".local", ".internal", ".localhost", ".test")


class Prices:
    """The prices that a worker process knows.

    Args:
        settings: Their `prices` win; their `providers` say whose prices hold for which.
    """

    def __init__(self, settings: Settings) -> None:
        self._own = settings.prices
        self._providers = settings.providers
        if any(bundle.priced_as or _is_public(bundle.base_url) for bundle in settings.providers.values()):
            # 2 MB of Python: read before the first run, not within it.
            import genai_prices.data  # noqa: F401  # pyright: ignore[reportUnusedImport]

    def cost(self, provider: Provider, model: str, usage: ModelUsage | None) -> int | None:
        """What a finished request cost, rounded up; None = unknown, for a price or the usage is.

        Args:
            usage: None = the server did not say.
        """
        if usage is None:
            return None
        own = self._own.get(f"{provider.name}/{model}") or self._own.get(model)
        if own is not None:
            return _own_cost(own, usage)
        return self._listed_cost(provider, model, usage)

    def estimate(self, provider: Provider, model: str, input_tokens: int, output_tokens: int) -> int | None:
        """What a request of this size costs at most, with nothing read from a cache; None = unknown."""
        return self.cost(provider, model, ModelUsage(input_tokens, output_tokens))

    def _listed_cost(self, provider: Provider, model: str, usage: ModelUsage) -> int | None:
        tier = provider.overrides.get("service_tier")
        context = {"service_tier": tier} if isinstance(tier, str) else None
        bundle = self._providers.get(provider.name)
        if bundle is not None and bundle.base_url != provider.base_url:
            bundle = None  # an Agent Spec document's own endpoint that bears the same name
        if bundle is not None and bundle.priced_as:
            return _listed(model, usage, context, bundle.priced_as, None)
        if not _is_public(provider.base_url):
            return None
        found = _listed(model, usage, context, None, provider.base_url)
        if found is None and bundle is not None:
            # A gateway is priced as the provider that it is named after. What a document calls its
            # endpoint says nothing.
            found = _listed(model, usage, context, provider.name, None)
        return found


def setting_of(model: str) -> str:
    """The setting that gives a model a price, as the owner of retinue.toml writes it."""
    return f'prices."{model}"'


def _listed(
    model: str, usage: ModelUsage, context: dict[str, str] | None, name: str | None, url: str | None
) -> int | None:
    """By the list of the provider of that name or, where there is none, at that URL."""
    from genai_prices import Usage, calc_price

    # Part of the whole, whatever a server says.
    cached = min(usage.cached_tokens, usage.input_tokens)
    reasoning = min(usage.reasoning_tokens, usage.output_tokens)
    tokens = Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=cached,
        output_reasoning_tokens=reasoning,
    )
    try:
        if name is not None:
            found = calc_price(tokens, model, provider_id=name, price_context=context)
        else:
            found = calc_price(tokens, model, provider_api_url=url, price_context=context)
    except (LookupError, ValueError):  # not listed, or in a way that tokens do not tell
        return None
    return _ceiling(found.total_price * _MICRO) if _covers(found.model_price, tokens) else None


def _covers(price: ModelPrice, tokens: Usage) -> bool:
    """Whether there is a price for all that was used: models are listed whose price nobody entered."""
    return not (
        (tokens.input_tokens and price.input_mtok is None)
        or (tokens.output_tokens and price.output_mtok is None)
    )


def _own_cost(price: PriceSettings, usage: ModelUsage) -> int:
    """USD per million tokens is micro-USD per token."""
    cached = min(usage.cached_tokens, usage.input_tokens)
    for_cached = price.input if price.cached is None else price.cached
    total = (usage.input_tokens - cached) * price.input + cached * for_cached
    return _ceiling(total + usage.output_tokens * price.output)


def _ceiling(value: Decimal) -> int:
    return int(value.to_integral_value(ROUND_CEILING))


def _is_public(base_url: str) -> bool:
    """Whether a URL may be a provider's that has a price list: not a server of one's own."""
    host = urlsplit(base_url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        return "." in host and not host.endswith(_PRIVATE_NAMES)
