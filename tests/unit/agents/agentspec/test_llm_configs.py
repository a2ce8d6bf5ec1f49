from __future__ import annotations

import pytest
from pyagentspec.llms import (
    LlmConfig,
    OciGenAiConfig,
    OllamaConfig,
    OpenAiCompatibleConfig,
    OpenAiConfig,
    VllmConfig,
)
from pyagentspec.llms.llmgenerationconfig import LlmGenerationConfig
from pyagentspec.llms.ociclientconfig import OciClientConfigWithInstancePrincipal
from pyagentspec.llms.openaicompatibleconfig import OpenAIAPIType
from pyagentspec.retrypolicy import RetryPolicy

from retinue.agents import AgentSpecError, InlineLlm
from retinue.agents.agentspec.llm_configs import base_url, inline_llm
from retinue.agents.agentspec.remote_spec import RetrySpec


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (OpenAiConfig(name="a", model_id="m"), InlineLlm(name="a", provider="openai", model="m")),
        (
            OpenAiConfig(name="a", model_id="m", api_type=OpenAIAPIType.RESPONSES),
            InlineLlm(name="a", provider="openai", model="m", api="responses"),
        ),
        (
            OpenAiCompatibleConfig(name="a", model_id="m", url="http://h"),
            InlineLlm(name="a", url="http://h/v1", model="m"),
        ),
        (
            VllmConfig(name="a", model_id="m", url="http://h:1/x/"),
            InlineLlm(name="a", url="http://h:1/x/v1", provider="vllm", model="m"),
        ),
        (
            OllamaConfig(name="a", model_id="m", url="localhost:11434"),
            InlineLlm(name="a", url="http://localhost:11434/v1", provider="ollama", model="m"),
        ),
        (
            LlmConfig(name="a", model_id="m", provider="meta", api_provider="Local", api_type="responses"),
            InlineLlm(name="a", provider="local", model="m", api="responses"),
        ),
    ],
)
def test_the_five_kinds_become_an_endpoint(config: LlmConfig, expected: InlineLlm) -> None:
    assert inline_llm(config) == expected


def test_generation_parameters_are_carried_over_with_extras() -> None:
    generation = LlmGenerationConfig(temperature=0.2, max_tokens=9, reasoning_effort="low")  # pyright: ignore
    config = VllmConfig(name="a", model_id="m", url="http://h", default_generation_parameters=generation)
    assert inline_llm(config).params == {"temperature": 0.2, "max_tokens": 9, "reasoning_effort": "low"}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com/v1"),
        ("http://h/v1/chat/completions", "http://h/v1"),
        ("http://h/api/v2/", "http://h/api/v2"),
        ("http://h/llama4mav", "http://h/llama4mav/v1"),
        ("vllm_url", "http://vllm_url/v1"),
        ("http://h/v1beta/openai", "http://h/v1beta/openai"),
        ("http://h/vault", "http://h/vault/v1"),
        ("[[OSS_API_URL]]", "[[OSS_API_URL]]"),
    ],
)
def test_urls_keep_their_path_and_get_scheme_and_version(url: str, expected: str) -> None:
    assert base_url(url, llm="a") == expected


@pytest.mark.parametrize("url", ["http://user:hunter2@h/v1", "http://h/v1?key=hunter2"])
def test_a_url_with_a_credential_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(AgentSpecError) as caught:
        base_url(url, llm="a")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("field", ["api_key", "key_file", "cert_file", "ca_file"])
def test_sensitive_fields_are_refused_with_the_setting_to_use(field: str) -> None:
    config = VllmConfig(name="a", model_id="m", url="http://h", **{field: "hunter2"})  # pyright: ignore
    with pytest.raises(AgentSpecError, match="llm_configs") as caught:
        inline_llm(config)
    assert field in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_credential_among_the_generation_parameters_is_refused() -> None:
    generation = LlmGenerationConfig(extra_headers={"Authorization": "hunter2"})  # pyright: ignore
    config = VllmConfig(name="a", model_id="m", url="http://h", default_generation_parameters=generation)
    with pytest.raises(AgentSpecError, match="extra_headers") as caught:
        inline_llm(config)
    assert "hunter2" not in str(caught.value)


def test_another_kind_is_named() -> None:
    client = OciClientConfigWithInstancePrincipal(name="c", service_endpoint="http://h")
    config = OciGenAiConfig(name="a", model_id="m", compartment_id="c", client_config=client)
    with pytest.raises(AgentSpecError, match="OciGenAiConfig, which is not supported"):
        inline_llm(config)


def test_another_api_is_named() -> None:
    with pytest.raises(AgentSpecError, match="'grpc'"):
        inline_llm(LlmConfig(name="a", model_id="m", api_type="grpc"))


def test_a_retry_policy_is_carried_over_with_its_units() -> None:
    policy = RetryPolicy(
        max_attempts=4, request_timeout=2.5, jitter=None, recoverable_statuses={"409": ["lock"], "425": []}
    )
    retry = inline_llm(VllmConfig(name="a", model_id="m", url="http://h", retry_policy=policy)).retry
    assert retry == RetrySpec(
        max_retries=4, request_timeout_s=2.5, jitter="none", statuses={"409": ("lock",), "425": ()}
    )
