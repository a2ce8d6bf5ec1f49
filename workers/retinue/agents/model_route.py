"""Which model a run talks to, and through which provider: request, then spec, then settings, then parent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from retinue.contract import ErrorCode, SettingsError, SubagentLifecycleError

from .effective import Inheritance
from .entry import AgentEntry
from .llm import InlineLlm

if TYPE_CHECKING:
    from retinue.broker.settings import Settings


@dataclass(frozen=True, slots=True)
class ModelRoute:
    """A model and its endpoint: a provider's bundle or an Agent Spec document's, never a mixture."""

    model: str
    provider: str | None
    llm: InlineLlm | None

    def same_endpoint(self, parent: Inheritance) -> bool:
        """Whether the parent's requests go to the same place, so that its parameters make sense here."""
        own = None if self.llm is None else self.llm.url or self.llm.provider
        other = None if parent.llm is None else parent.llm.url or parent.llm.provider
        return (self.provider, own) == (parent.provider, other)


def route_model(
    entry: AgentEntry, settings: Settings, parent: Inheritance, *, model: str | None, provider: str | None
) -> ModelRoute:
    """The model and the endpoint of a run.

    Args:
        entry: the agent.
        settings: of this process.
        parent: what the run may inherit.
        model: as the launch asks. None = it does not say.
        provider: as the launch asks.

    Raises:
        SubagentLifecycleError: UNKNOWN_PROVIDER, or no model is known for the provider; names the mend.
        SettingsError: the document's endpoint is incomplete.
    """
    chosen, llm = _endpoint(entry, settings, parent, provider)
    if llm is not None:
        return _through_llm(entry, settings, llm, model)
    if chosen is None:
        raise SubagentLifecycleError(
            f"agent {entry.name!r} has no provider",
            field="provider",
            mend="set OPENAI_API_KEY, or [providers.<name>] and default_provider in the settings",
            code=ErrorCode.UNKNOWN_PROVIDER,
        )
    if chosen not in settings.providers:
        raise SubagentLifecycleError(
            f"no provider is named {chosen!r}",
            field="provider",
            limit=", ".join(sorted(settings.providers)) or "no provider is configured",
            mend="name a configured provider, or add [providers.<name>] to the settings",
            code=ErrorCode.UNKNOWN_PROVIDER,
        )
    found = model or entry.model or _default_model(entry, settings, parent, chosen)
    if found is None:
        raise SubagentLifecycleError(
            f"agent {entry.name!r} has no model for provider {chosen!r}",
            field="model",
            mend="give the agent or the launch a model, or set default_model",
        )
    return ModelRoute(found, chosen, None)


def _endpoint(
    entry: AgentEntry, settings: Settings, parent: Inheritance, requested: str | None
) -> tuple[str | None, InlineLlm | None]:
    if requested is not None or entry.provider is not None:
        return requested or entry.provider, None
    if entry.llm is not None:
        return None, entry.llm
    if settings.default_provider is not None:
        return settings.default_provider, None
    if parent.llm is not None:
        return None, parent.llm
    # The only provider there is, or `openai`, is a guess of the settings: the parent knows better.
    return parent.provider or settings.default_provider_name, None


def _through_llm(entry: AgentEntry, settings: Settings, llm: InlineLlm, model: str | None) -> ModelRoute:
    override = settings.llm_configs.get(llm.name)
    # Without a URL, the whole bundle of the provider that the document names is used.
    has_url = llm.url is not None or (override is not None and override.url is not None)
    provider = None if has_url else llm.provider
    if not has_url and provider not in settings.providers:
        raise SettingsError(
            f"LLM config {llm.name!r} of agent {entry.name!r} has no URL, and its provider "
            f"{provider or '(none)'} is not configured",
            setting=f"llm_configs.{llm.name}.url",
            mend="set it, or configure the provider",
        )
    found = model or entry.model or (override and override.model) or llm.model
    return ModelRoute(found, provider, llm.model_copy(update={"model": found}))


def _default_model(entry: AgentEntry, settings: Settings, parent: Inheritance, provider: str) -> str | None:
    own = settings.providers[provider].default_model
    if own is not None:
        return own
    # A global default names a model of the default provider; another one need not have it.
    if settings.default_model is not None and provider == settings.default_provider_name:
        return settings.default_model
    if entry.llm is not None:
        return entry.llm.model
    return parent.model if parent.provider == provider else None
