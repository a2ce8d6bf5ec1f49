"""The model endpoint that an Agent Spec file brings along, without any credential."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from .remote_spec import RetrySpec

ApiKind = Literal["chat_completions", "responses"]


class InlineLlm(BaseModel):
    """A model and where it is served.

    Args:
        name: the LLM config's name; ``[llm_configs.<name>]`` in the settings overrides URL, key and model.
        url: base URL as the OpenAI client takes it (the paths are appended to it). None = the endpoint and
            key of `provider`. No key of the settings' providers is ever sent to this URL.
        provider: a provider of the settings, used only where there is no URL.
        model: the model's id.
        api: which of the two OpenAI APIs is spoken.
        params: default members of the model request.
        needs_key: the document refers to a key; the settings must give it.
        retry: when a failed request is sent again. None = as the worker's settings say.
        by_value: it came with a launch: no key goes to a URL that it names itself.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    url: str | None = None
    provider: str | None = None
    model: str
    api: ApiKind = "chat_completions"
    params: dict[str, JsonValue] = Field(default_factory=dict)
    needs_key: bool = False
    retry: RetrySpec | None = None
    by_value: bool = False
