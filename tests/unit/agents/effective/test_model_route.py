from __future__ import annotations

import pytest
from tests.unit.agents.conftest import SettingsFactory

from retinue.agents import Inheritance, InlineLlm
from retinue.agents.effective.model_route import ModelRoute, route_model
from retinue.agents.registry.entry import AgentEntry
from retinue.broker.settings import Settings
from retinue.contract import ErrorCode, SettingsError, SubagentLifecycleError

PROVIDERS = {
    "openai": {"base_url": "https://a.test/v1"},
    "local": {"base_url": "http://b.test/v1", "default_model": "local-1"},
    "bare": {"base_url": "http://c.test/v1"},
}
LLM = InlineLlm(name="spec-llm", url="http://spec.test/v1", model="spec-1", provider="vllm")


def entry(model: str | None = None, provider: str | None = None, llm: InlineLlm | None = None) -> AgentEntry:
    return AgentEntry("a", "d", "here", None, model=model, provider=provider, llm=llm)


def route(
    settings: Settings,
    agent: AgentEntry,
    parent: Inheritance | None = None,
    *,
    model: str | None = None,
    provider: str | None = None,
) -> tuple[str, str | None, bool]:
    found: ModelRoute = route_model(agent, settings, parent or Inheritance(), model=model, provider=provider)
    return found.model, found.provider, found.llm is not None


@pytest.fixture
def many(make_settings: SettingsFactory) -> Settings:
    return make_settings(providers=PROVIDERS, default_provider="local", default_model="global-1")


def test_the_order_is_request_spec_settings_parent(many: Settings, make_settings: SettingsFactory) -> None:
    parent = Inheritance(model="parent-1", provider="bare")
    agent = entry("spec-1", "openai")
    assert route(many, agent, parent, model="asked-1", provider="bare") == ("asked-1", "bare", False)
    assert route(many, agent, parent) == ("spec-1", "openai", False)
    assert route(many, entry(), parent) == ("local-1", "local", False)
    open_settings = make_settings(providers=PROVIDERS)
    assert route(open_settings, entry(), parent) == ("parent-1", "bare", False)


def test_a_guessed_provider_comes_after_the_parents(make_settings: SettingsFactory) -> None:
    settings = make_settings(providers=PROVIDERS, default_model="global-1")
    assert route(settings, entry()) == ("global-1", "openai", False)
    assert route(settings, entry(), Inheritance(model="p", provider="local"))[1] == "local"


def test_a_model_is_not_taken_over_to_another_provider(many: Settings) -> None:
    parent = Inheritance(model="parent-1", provider="openai")
    with pytest.raises(SubagentLifecycleError, match="no model for provider 'bare'"):
        route(many, entry(provider="bare"), parent)


def test_a_global_default_model_belongs_to_the_default_provider(make_settings: SettingsFactory) -> None:
    settings = make_settings(providers=PROVIDERS, default_provider="openai", default_model="global-1")
    assert route(settings, entry()) == ("global-1", "openai", False)
    with pytest.raises(SubagentLifecycleError, match="no model"):
        route(settings, entry(provider="bare"))


def test_an_unknown_provider_lists_the_known_ones(many: Settings) -> None:
    with pytest.raises(SubagentLifecycleError, match=r"'azure'.*bare, local, openai") as caught:
        route(many, entry("m"), provider="azure")
    assert caught.value.code is ErrorCode.UNKNOWN_PROVIDER


def test_without_any_provider_the_mend_says_what_to_set(make_settings: SettingsFactory) -> None:
    with pytest.raises(SubagentLifecycleError, match="OPENAI_API_KEY"):
        route(make_settings(providers={}), entry("m"))


def test_a_documents_endpoint_comes_before_the_settings(many: Settings) -> None:
    assert route(many, entry(llm=LLM)) == ("spec-1", None, True)
    assert route(many, entry(llm=LLM), model="asked-1") == ("asked-1", None, True)


def test_a_requested_provider_replaces_a_documents_endpoint_whole(many: Settings) -> None:
    assert route(many, entry(llm=LLM), provider="local") == ("local-1", "local", False)


def test_the_settings_override_a_documents_model(make_settings: SettingsFactory) -> None:
    settings = make_settings(providers={}, llm_configs={"spec-llm": {"model": "other-1"}})
    assert route(settings, entry(llm=LLM)) == ("other-1", None, True)


def test_a_documents_llm_without_url_uses_the_provider_it_names(many: Settings) -> None:
    llm = LLM.model_copy(update={"url": None, "provider": "openai"})
    assert route(many, entry(llm=llm)) == ("spec-1", "openai", True)


def test_a_documents_llm_without_any_endpoint_says_what_to_set(make_settings: SettingsFactory) -> None:
    llm = LLM.model_copy(update={"url": None})
    with pytest.raises(SettingsError, match="spec-llm"):
        route(make_settings(), entry(llm=llm))
    settings = make_settings(llm_configs={"spec-llm": {"url": "http://x.test/v1"}})
    assert route(settings, entry(llm=llm)) == ("spec-1", None, True)


def test_a_child_inherits_a_documents_endpoint(make_settings: SettingsFactory) -> None:
    parent = Inheritance(model="spec-1", llm=LLM)
    assert route(make_settings(providers=PROVIDERS), entry(), parent) == ("spec-1", None, True)
