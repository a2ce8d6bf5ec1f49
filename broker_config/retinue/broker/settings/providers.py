"""What the settings say about model providers and about the models of Agent Spec files.

Separate from process.py because a provider is a bundle (URL, key, API, overrides) that is always taken
whole: mixing one provider's URL with another's key would send the key to a stranger.
"""

from __future__ import annotations

import os
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from retinue.contract.errors import SettingsError
from retinue.store.operations.provider_places import ProviderLimits

OPENAI_BASE_URL = "https://api.openai.com/v1"
"""Where the implicit provider `openai` is, unless OPENAI_BASE_URL says otherwise."""

ApiKind = Literal["chat_completions", "responses"]


class ProviderSettings(BaseModel):
    """One OpenAI-compatible provider: everything needed to call it."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    base_url: str = Field(description="URL the API's paths are appended to, as in https://api.openai.com/v1.")
    api_key: SecretStr | None = Field(
        default=None, description="The key. None = api_key_env is asked; neither = no key is sent."
    )
    api_key_env: str | None = Field(
        default=None,
        description="Name of the environment variable that holds the key. None = api_key is the key.",
    )
    api: ApiKind = Field(
        default="chat_completions", description="Which of the two OpenAI APIs the provider is spoken to in."
    )
    default_model: str | None = Field(
        default=None,
        description="Model of runs that name none. None = such runs use the setting default_model.",
    )
    headers: dict[str, SecretStr] = Field(
        default_factory=dict, description="Headers sent with each request, beside the key."
    )
    overrides: dict[str, Any] = Field(
        default_factory=dict,
        repr=False,
        description="Members put into each request body, over what the run asks (service_tier, ...).",
    )

    priced_as: str | None = Field(
        default=None,
        description="Provider of genai-prices whose prices hold. None = told by base_url, then by the name.",
    )

    max_concurrency: int | None = Field(
        default=None, ge=1, description="Requests at a time, of all workers together. None = no limit."
    )
    requests_per_minute: int | None = Field(
        default=None, ge=1, description="Requests in any minute, of all workers together. None = no limit."
    )
    tokens_per_minute: int | None = Field(
        default=None, ge=1, description="Likewise, of input and output tokens. None = no limit."
    )

    @field_validator("base_url")
    @classmethod
    def _must_be_http(cls, value: str) -> str:
        if not value.startswith(("http://", "https://")):
            raise ValueError("must start with https:// or http://")
        return value.rstrip("/")

    @property
    def limits(self) -> ProviderLimits | None:
        """What all workers together may ask of it; None = as much as they like."""
        limits = ProviderLimits(self.max_concurrency, self.requests_per_minute, self.tokens_per_minute)
        return None if limits == ProviderLimits() else limits

    def key(self) -> SecretStr | None:
        """The key to send, read from the environment where the settings name a variable.

        Returns:
            The key, or None when neither api_key nor api_key_env is set.

        Raises:
            SettingsError: the variable that api_key_env names is not set.
        """
        return _read_key(self.api_key, self.api_key_env)


Usd = Annotated[Decimal, Field(ge=0, allow_inf_nan=False)]


class PriceSettings(BaseModel):
    """What one model costs, in USD per million tokens. 0 = free."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    input: Usd = Field(description="Of input tokens that were not read from a cache.")
    output: Usd = Field(description="Of output tokens, reasoning included.")
    cached: Usd | None = Field(
        default=None, description="Of input tokens that were read from a cache. None = as input."
    )


class LlmOverride(BaseModel):
    """What replaces the endpoint of one LLM config of an Agent Spec file, by the config's name.

    A spec may not bring credentials; an operator adds them here.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    url: str | None = Field(
        default=None, description="URL used in place of the spec's. None = the spec's stays."
    )
    api_key: SecretStr | None = Field(
        default=None, description="The key. None = api_key_env is asked; neither = no key is sent."
    )
    api_key_env: str | None = Field(
        default=None,
        description="Name of the environment variable that holds the key. None = api_key is the key.",
    )
    model: str | None = Field(
        default=None, description="Model used in place of the spec's. None = the spec's stays."
    )

    def key(self) -> SecretStr | None:
        """The key to send; as `ProviderSettings.key`."""
        return _read_key(self.api_key, self.api_key_env)


def with_openai(configured: dict[str, Any]) -> dict[str, Any]:
    """Add the provider `openai`, or complete a configured one, from OPENAI_API_KEY and OPENAI_BASE_URL.

    Args:
        configured: providers as the sources gave them (unvalidated mappings or `ProviderSettings`), by name.

    Returns:
        A new mapping. `openai` is in it when it was configured or OPENAI_API_KEY is set.
    """
    key = os.environ.get("OPENAI_API_KEY", "")
    entry = configured.get("openai", {} if key else None)
    if not isinstance(entry, dict):
        return dict(configured)
    completed: dict[str, Any] = dict(entry)
    completed.setdefault("base_url", os.environ.get("OPENAI_BASE_URL") or OPENAI_BASE_URL)
    if key and not completed.get("api_key") and not completed.get("api_key_env"):
        completed["api_key"] = key
    return {**configured, "openai": completed}


def _read_key(api_key: SecretStr | None, variable: str | None) -> SecretStr | None:
    if api_key is not None:
        return api_key
    if variable is None:
        return None
    value = os.environ.get(variable, "")
    if not value:
        raise SettingsError(
            f"the environment variable {variable} is not set",
            setting="api_key_env",
            mend=f"set {variable} in this process, or set api_key",
        )
    return SecretStr(value)
