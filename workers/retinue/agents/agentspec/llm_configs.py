"""LLM configs of Agent Spec documents. Credentials in them are refused: they belong into the settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit, urlunsplit

from pydantic import JsonValue

from retinue.agents.checks import model_params
from retinue.contract import AgentSpecError, DeclarationError

from .llm import ApiKind, InlineLlm
from .retry import retry_spec
from .secrets import is_reference, keep_embedded

if TYPE_CHECKING:
    from pyagentspec.llms.llmconfig import LlmConfig

_KINDS: Final = ("OpenAiConfig", "OpenAiCompatibleConfig", "VllmConfig", "OllamaConfig", "LlmConfig")
_ENDPOINTS: Final = ("/chat/completions", "/responses")


def inline_llm(config: LlmConfig) -> InlineLlm:
    """The model and endpoint of an LLM config.

    Args:
        config: of one of the five OpenAI-compatible kinds.

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
    needs_key = _take_secrets(config)
    return InlineLlm(
        name=config.name,
        url=None if config.url is None else base_url(config.url, llm=config.name),
        provider=_provider(config),
        model=config.model_id,
        api=_api(config),
        params=_params(config),
        needs_key=needs_key,
        retry=retry_spec(config.retry_policy),
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


def _take_secrets(config: LlmConfig) -> bool:
    """Sees that no credential goes on with the config; whether the settings must give its key."""
    from pyagentspec.sensitive_field import is_sensitive_field

    what = f"LLM config {config.name!r}"
    for name, info in type(config).model_fields.items():
        # Never the value: it would end in a log.
        if name == "api_key" or not is_sensitive_field(info) or getattr(config, name) is None:
            continue
        raise AgentSpecError(
            f"{what} carries the sensitive field {name}: certificates of single models are not supported",
            field=name,
            mend=f'take it out and set [llm_configs."{config.name}"] url to an endpoint that needs none',
        )
    key = config.api_key
    if key and not is_reference(key):
        keep_embedded("llm", config.name, {"api_key": key}, what=what, mend=_mend(config.name))
    return is_reference(key)


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
