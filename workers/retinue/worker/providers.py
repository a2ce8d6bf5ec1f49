"""Which endpoint and credentials a spec's model requests use: one whole bundle of the settings, unmixed."""

from __future__ import annotations

from dataclasses import replace

from retinue.agents import EffectiveSpec, InlineLlm
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
            url = (override and override.url) or llm.url
            key = override.key() if override else None
            if url is not None:
                return Provider(name=llm.name, base_url=url, api_key=key, api=llm.api)
            bundle = self._of_settings(_provider_of(llm))
            return bundle if key is None else replace(bundle, api_key=key)
        if spec.provider is None:
            raise SettingsError(
                f"agent {spec.agent!r} has no provider",
                setting="default_provider",
                mend="set OPENAI_API_KEY, or [providers.<name>] in the settings",
            )
        return self._of_settings(spec.provider)

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
