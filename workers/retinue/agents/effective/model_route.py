"""Which model a run talks to, and through which provider: request, then spec, then settings, then parent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from retinue.agents.agentspec.llm import InlineLlm
from retinue.agents.registry.entry import AgentEntry
from retinue.contract import ErrorCode, SettingsError, SubagentLifecycleError

from .effective import Inheritance
from .origin import Origin, Source

if TYPE_CHECKING:
    from retinue.broker.settings import Settings


@dataclass(frozen=True, slots=True)
class ModelRoute:
    """A model and its endpoint: a provider's bundle or an Agent Spec document's, never a mixture.

    Args:
        model: the model's id.
        provider: None = `llm` has a URL.
        llm: None = the provider's endpoint.
        model_from: who decided the model.
        endpoint_from: who decided the provider or `llm`.
    """

    model: str
    provider: str | None
    llm: InlineLlm | None
    model_from: Origin
    endpoint_from: Origin

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
    chosen, llm, endpoint_from = _endpoint(entry, settings, parent, provider)
    if llm is not None:
        return _through_llm(entry, settings, llm, model, endpoint_from)
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
    found, model_from = _own_model(entry, model) or _default_model(entry, settings, parent, chosen)
    if found is None:
        raise SubagentLifecycleError(
            f"agent {entry.name!r} has no model for provider {chosen!r}",
            field="model",
            mend="give the agent or the launch a model, or set default_model",
        )
    return ModelRoute(found, chosen, None, model_from, endpoint_from)


def _endpoint(
    entry: AgentEntry, settings: Settings, parent: Inheritance, requested: str | None
) -> tuple[str | None, InlineLlm | None, Origin]:
    if requested is not None:
        return requested, None, Origin(Source.REQUEST)
    if entry.provider is not None or entry.llm is not None:
        llm = entry.llm if entry.provider is None else None
        return entry.provider, llm, Origin(Source.DECLARATION)
    if settings.default_provider is not None:
        return settings.default_provider, None, Origin(Source.SETTINGS, "default_provider")
    if parent.llm is not None or parent.provider is not None:
        provider = parent.provider if parent.llm is None else None
        return provider, parent.llm, Origin(Source.PARENT)
    # The only provider there is, or `openai`, is a guess of the settings: the parent knows better.
    return settings.default_provider_name, None, Origin(Source.SETTINGS, "providers")


def _own_model(entry: AgentEntry, requested: str | None) -> tuple[str, Origin] | None:
    if requested is not None:
        return requested, Origin(Source.REQUEST)
    return None if entry.model is None else (entry.model, Origin(Source.DECLARATION))


def _through_llm(
    entry: AgentEntry, settings: Settings, llm: InlineLlm, requested: str | None, endpoint_from: Origin
) -> ModelRoute:
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
    if override is not None and override.model is not None:
        default = override.model, Origin(Source.SETTINGS, f"llm_configs.{llm.name}.model")
    else:
        default = llm.model, endpoint_from
    found, model_from = _own_model(entry, requested) or default
    return ModelRoute(found, provider, llm.model_copy(update={"model": found}), model_from, endpoint_from)


def _default_model(
    entry: AgentEntry, settings: Settings, parent: Inheritance, provider: str
) -> tuple[str | None, Origin]:
    own = settings.providers[provider].default_model
    if own is not None:
        return own, Origin(Source.PROVIDER, f"providers.{provider}.default_model")
    # A global default names a model of the default provider; another one need not have it.
    if settings.default_model is not None and provider == settings.default_provider_name:
        return settings.default_model, Origin(Source.SETTINGS, "default_model")
    if entry.llm is not None:
        return entry.llm.model, Origin(Source.DECLARATION)
    return (parent.model if parent.provider == provider else None), Origin(Source.PARENT)
