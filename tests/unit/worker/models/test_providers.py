"""Bundles: URL, key and headers of a model request come from one place of the settings, unmixed."""

from __future__ import annotations

from typing import Any

import pytest

from retinue.agents import EffectiveSpec, InlineLlm
from retinue.broker.settings import Settings
from retinue.contract import SettingsError
from retinue.worker.models import Provider
from retinue.worker.models.providers import ProviderBundles

LOCAL = {
    "base_url": "http://local.test/v1",
    "api_key": "sk-local",
    "api": "responses",
    "headers": {"X-Team": "shop"},
    "overrides": {"service_tier": "flex"},
}


def bundles(**settings: Any) -> ProviderBundles:
    return ProviderBundles(Settings.read(providers={"local": LOCAL}, **settings))


def spec(provider: str | None = None, *, llm: InlineLlm | None = None) -> EffectiveSpec:
    return EffectiveSpec(agent="support", max_iterations=50, provider=provider, llm=llm)


def document(**fields: Any) -> EffectiveSpec:
    """A spec with an LLM config of its own."""
    return spec(llm=InlineLlm(**({"name": "vllm", "model": "m"} | fields)))


def key(provider: Provider) -> str | None:
    return provider.api_key.get_secret_value() if provider.api_key else None


def test_a_provider_brings_its_whole_bundle() -> None:
    found = bundles().of(spec("local"))

    assert (found.name, found.base_url, found.api, key(found)) == (
        "local",
        "http://local.test/v1",
        "responses",
        "sk-local",
    )
    assert found.headers["X-Team"].get_secret_value() == "shop"
    assert found.overrides == {"service_tier": "flex"}


def test_a_bundle_is_made_once() -> None:
    made = bundles()
    assert made.of(spec("local")) is made.of(spec("local"))


def test_the_key_is_read_from_the_environment_where_the_settings_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    named = {"rented": {"base_url": "http://r.test", "api_key_env": "RENTED_KEY"}}
    made = ProviderBundles(Settings.read(providers=named))
    with pytest.raises(SettingsError, match="RENTED_KEY"):
        made.of(spec("rented"))

    monkeypatch.setenv("RENTED_KEY", "sk-rented")
    assert key(made.of(spec("rented"))) == "sk-rented"


def test_an_unknown_provider_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match="local"):
        bundles().of(spec("elsewhere"))


def test_a_spec_without_a_provider_says_what_to_set() -> None:
    with pytest.raises(SettingsError, match="OPENAI_API_KEY"):
        bundles().of(spec())


def test_the_url_of_a_document_is_never_sent_a_providers_key_or_headers() -> None:
    found = bundles().of(document(url="http://spec.test/v1", provider="local", api="responses"))

    assert (found.name, found.base_url, found.api, key(found)) == (
        "vllm",
        "http://spec.test/v1",
        "responses",
        None,
    )
    assert not found.headers
    assert not found.overrides


def test_the_settings_replace_a_documents_url_and_give_it_a_key() -> None:
    made = bundles(llm_configs={"vllm": {"url": "http://ours.test/v1", "api_key": "sk-vllm"}})

    found = made.of(document(url="http://spec.test/v1"))

    assert (found.base_url, key(found)) == ("http://ours.test/v1", "sk-vllm")
    assert made.of(document(name="other", url="http://spec.test/v1")).base_url == "http://spec.test/v1"


def test_the_settings_give_a_key_to_a_documents_own_url() -> None:
    made = bundles(llm_configs={"vllm": {"api_key": "sk-vllm"}})

    found = made.of(document(url="http://spec.test/v1"))

    assert (found.base_url, key(found)) == ("http://spec.test/v1", "sk-vllm")


def test_a_document_without_a_url_uses_its_providers_bundle() -> None:
    found = bundles().of(document(provider="local"))

    assert (found.name, key(found)) == ("local", "sk-local")


def test_a_document_without_a_url_may_have_a_key_of_its_own() -> None:
    made = bundles(llm_configs={"vllm": {"api_key": "sk-own"}})
    by_document = document(provider="local")

    found = made.of(by_document)

    assert (found.base_url, key(found)) == ("http://local.test/v1", "sk-own")
    assert key(made.of(spec("local"))) == "sk-local", "the provider keeps its own"


def test_a_document_with_neither_url_nor_provider_names_the_setting() -> None:
    with pytest.raises(SettingsError, match=r"llm_configs\.vllm\.url"):
        bundles().of(document())


def test_no_key_shows_in_a_repr() -> None:
    assert "sk-local" not in repr(bundles().of(spec("local")))


def test_a_key_that_a_document_refers_to_must_stand_in_the_settings() -> None:
    wanted = document(url="http://vllm.test/v1", needs_key=True)
    with pytest.raises(SettingsError, match=r"llm_configs\.vllm\.api_key_env"):
        bundles().of(wanted)
    assert key(bundles(llm_configs={"vllm": {"api_key": "sk-own"}}).of(wanted)) == "sk-own"


def test_a_document_that_came_with_a_launch_gets_no_key_for_a_url_of_its_own() -> None:
    theirs = document(url="http://stranger.test/v1", by_value=True)
    with pytest.raises(SettingsError, match=r"llm_configs\.vllm\.url"):
        bundles(llm_configs={"vllm": {"api_key": "sk-own"}}).of(theirs)
    own = {"api_key": "sk-own", "url": "http://ours.test/v1"}
    found = bundles(llm_configs={"vllm": own}).of(theirs)
    assert (found.base_url, key(found)) == ("http://ours.test/v1", "sk-own")
    assert key(bundles().of(theirs)) is None
