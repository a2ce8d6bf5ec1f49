"""Guesses about servers, and what corrects them."""

import pytest

from retinue.worker.models import ModelError, Provider
from retinue.worker.models.dialect import Dialect, is_openai


def provider(base_url: str) -> Provider:
    return Provider(name="p", base_url=base_url)


@pytest.mark.parametrize(
    ("base_url", "openai"),
    [
        ("https://api.openai.com/v1", True),
        ("https://eu.api.openai.com/v1", True),
        ("https://mine.openai.azure.com/openai/v1", True),
        ("https://api.openai.com.example.net/v1", False),
        ("https://notopenai.com/v1", False),
        ("http://localhost:8000/v1", False),
        ("nonsense", False),
        ("http://[broken/v1", False),
    ],
)
def test_the_output_limit_is_named_as_the_host_likes_it(base_url: str, openai: bool):
    assert is_openai(provider(base_url)) is openai
    assert Dialect.of(provider(base_url)).limit_key == ("max_completion_tokens" if openai else "max_tokens")


def refusal(detail: str, status: int = 400) -> ModelError:
    return ModelError("x", status=status, detail=detail)


NEWER = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'."


def test_a_refused_limit_name_is_exchanged_once():
    corrected = Dialect().after(refusal(NEWER))
    assert corrected is not None
    assert corrected.limit_key == "max_completion_tokens"
    assert corrected.after(refusal("max_completion_tokens: Extra inputs are not permitted")) is None


def test_a_model_without_encrypted_reasoning_is_not_asked_for_it_again():
    said = refusal("Encrypted content is not supported with this model.")
    corrected = Dialect().after(said)
    assert corrected == Dialect(encrypted_reasoning=False)
    assert corrected.after(said) is None


@pytest.mark.parametrize(
    "error",
    [refusal(NEWER, status=500), refusal("max_tokens is too large: 5000"), ModelError("x", status=400)],
)
def test_other_errors_change_nothing(error: ModelError):
    assert Dialect().after(error) is None
