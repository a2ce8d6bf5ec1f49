"""Which endpoint and credentials a spec's model requests use: one whole bundle of the settings, unmixed."""

from __future__ import annotations

from dataclasses import replace

from pydantic import SecretStr

from retinue.agents import EffectiveSpec, InlineLlm
from retinue.agents.agentspec.secrets import kept_secrets
from retinue.broker.settings import Settings
from retinue.contract import SettingsError
from retinue.worker.models import Provider


class ProviderBundles:
    """Finds bundles, each made once.

    Args:
        settings: Of this process: the only place where credentials stand.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._named: dict[str, Provider] = {}

    def of(self, spec: EffectiveSpec) -> Provider:
        """The bundle for a spec; an Agent Spec's LLM config may have a key of its own in the settings.

        Raises:
            SettingsError: The provider, or the URL of an Agent Spec's LLM config, is not configured here.
        """
        llm = spec.llm
        if llm is not None:
            override = self._settings.llm_configs.get(llm.name)
            own_url = override.url if override else None
            url = own_url or llm.url
            key = self._key(llm)
            if url is not None:
                guarded = llm.by_value and own_url is None
                return Provider(name=llm.name, base_url=url, api_key=key, api=llm.api, guarded=guarded)
            bundle = self._of_settings(_provider_of(llm))
            return bundle if key is None else replace(bundle, api_key=key)
        if spec.provider is None:
            raise SettingsError(
                f"agent {spec.agent!r} has no provider",
                setting="default_provider",
                mend="set OPENAI_API_KEY, or [providers.<name>] in the settings",
            )
        return self._of_settings(spec.provider)

    def _key(self, llm: InlineLlm) -> SecretStr | None:
        """The key of an Agent Spec's LLM config: the settings', else one that its document brought along."""
        override = self._settings.llm_configs.get(llm.name)
        key = override.key() if override else None
        if key is not None and llm.by_value and override is not None and override.url is None:
            # Whoever launches could name the operator's config with a URL of his own, and be sent the key.
            raise SettingsError(
                f"LLM config {llm.name!r} came with a launch, and has a URL of its own",
                setting=f"llm_configs.{llm.name}.url",
                mend="set it beside the key that is to be sent there",
            )
        if key is None and not llm.by_value:
            key = kept_secrets("llm", llm.name).get("api_key")
        if key is None and llm.needs_key:
            raise SettingsError(
                f"LLM config {llm.name!r} needs a key",
                setting=f"llm_configs.{llm.name}.api_key_env",
                mend="set it to the name of the environment variable that holds the key",
            )
        return key

    def _of_settings(self, name: str) -> Provider:
        found = self._named.get(name)
        if found is None:
            bundle = self._settings.provider(name)
            found = self._named[name] = Provider(
                name=name,
                base_url=bundle.base_url,
                api_key=bundle.key(),
                api=bundle.api,
                headers=bundle.headers,
                overrides=bundle.overrides,
                limits=bundle.limits,
            )
        return found


def _provider_of(llm: InlineLlm) -> str:
    if llm.provider is None:
        raise SettingsError(
            f"LLM config {llm.name!r} has no URL",
            setting=f"llm_configs.{llm.name}.url",
            mend="set it to where the model is served",
        )
    return llm.provider
