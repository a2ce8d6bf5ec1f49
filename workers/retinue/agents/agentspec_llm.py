"""LLM configs of Agent Spec documents. Credentials in them are refused: they belong into the settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit, urlunsplit

from pydantic import JsonValue

from retinue.contract import AgentSpecError, DeclarationError

from .checks import model_params
from .llm import ApiKind, InlineLlm

if TYPE_CHECKING:
    from pyagentspec.llms.llmconfig import LlmConfig

_KINDS: Final = ("OpenAiConfig", "OpenAiCompatibleConfig", "VllmConfig", "OllamaConfig", "LlmConfig")
_ENDPOINTS: Final = ("/chat/completions", "/responses")


def inline_llm(config: LlmConfig, notes: list[str]) -> InlineLlm:
    """The model and endpoint of an LLM config.

    Args:
        config: of one of the five OpenAI-compatible kinds.
        notes: gets a line for each part that is not carried over.

    Raises:
        AgentSpecError: another kind, another API, or a credential; names the config and the mend.
    """
    kind = type(config).__name__
    if kind not in _KINDS:
        raise AgentSpecError(
            f"LLM config {config.name!r} is a {kind}, which is not supported",
            field="llm_config",
            limit=", ".join(_KINDS),
            mend="serve the model through an OpenAI-compatible API",
        )
    _refuse_secrets(config)
    if config.retry_policy is not None:
        notes.append(
            f"retry_policy of LLM config {config.name!r} is not used: the worker's own policy applies"
        )
    return InlineLlm(
        name=config.name,
        url=None if config.url is None else base_url(config.url, llm=config.name),
        provider=_provider(config),
        model=config.model_id,
        api=_api(config),
        params=_params(config),
    )


def base_url(url: str, *, llm: str) -> str:
    """A document's URL as the OpenAI client takes it: with scheme, with its own path, and with a version.

    >>> base_url("http://host/llama4mav", llm="x")
    'http://host/llama4mav/v1'

    Raises:
        AgentSpecError: user, password or query in the URL.
    """
    full = url.strip() if "://" in url else f"http://{url.strip()}"
    try:
        parts = urlsplit(full)
    except ValueError:
        return url  # an unfilled template; the settings may still override it
    if parts.username or parts.password or parts.query:
        raise AgentSpecError(
            f"the URL of LLM config {llm!r} carries a user, a password or a query",
            field="url",
            mend=_mend(llm),
        )
    path = parts.path.rstrip("/")
    for ending in _ENDPOINTS:
        path = path.removesuffix(ending)
    if not any(part[:1] == "v" and part[1:2].isdigit() for part in path.split("/")):
        path += "/v1"
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def _refuse_secrets(config: LlmConfig) -> None:
    from pyagentspec.sensitive_field import is_sensitive_field

    for name, info in type(config).model_fields.items():
        # Never the value: it would end in a log.
        if is_sensitive_field(info) and getattr(config, name) is not None:
            raise AgentSpecError(
                f"LLM config {config.name!r} carries the sensitive field {name}",
                field=name,
                mend=_mend(config.name),
            )


def _mend(llm: str) -> str:
    return f'take it out of the document and set [llm_configs."{llm}"] api_key_env or url in retinue.toml'


def _provider(config: LlmConfig) -> str | None:
    named = config.api_provider or config.provider
    return None if named is None else named.lower()


def _api(config: LlmConfig) -> ApiKind:
    value = config.api_type
    text = "chat_completions" if value is None else str(getattr(value, "value", value))
    if text not in ("chat_completions", "responses"):
        raise AgentSpecError(
            f"LLM config {config.name!r} speaks {text!r}",
            field="api_type",
            limit="chat_completions, responses",
            mend="use one of the two",
        )
    return text


def _params(config: LlmConfig) -> dict[str, JsonValue]:
    generation = config.default_generation_parameters
    if generation is None:
        return {}
    values = cast("Mapping[str, object]", generation.model_dump(exclude_none=True))
    try:
        return model_params(values, field="default_generation_parameters")
    except DeclarationError as error:
        raise AgentSpecError(
            f"LLM config {config.name!r}: {error.args[0]}", field=error.field, mend=error.mend
        ) from None
