"""The words of the model side: provider, request, response, the `Model` protocol and its error.

Nothing here knows HTTP or the `openai` package, so that the run loop depends on this page only.
Every field that can hold a prompt, an output or a credential is kept out of `repr`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from pydantic import SecretStr

from retinue.contract import ErrorClassification, RetinueError
from retinue.store.operations.provider_places import ProviderLimits

Api = Literal["chat_completions", "responses"]
"""The two HTTP interfaces spoken; a thread's entries are stored in the format of one of them."""

OnDelta = Callable[[str], None]
"""Takes a piece of output text as it arrives. It must be quick and must not raise."""


@dataclass(frozen=True, kw_only=True)
class Provider:
    """Where a model is reached: one whole bundle, never mixed with another provider's.

    Args:
        name: The name in settings. Error messages show it, and of the rest at most the host and port.
        base_url: Absolute URL up to and including the version, e.g. `https://api.openai.com/v1`.
        api_key: Sent as bearer token. None = the server needs none (a dummy is sent).
        headers: Sent with each request; one named `Authorization` replaces the bearer token.
        overrides: Merged into each request body last; a None removes the key. Cannot set the history.
        guarded: Whoever launched named the URL: only hosts that tools may reach are connected to.
        stream: False asks for whole answers. What comes back decides how it is read, whatever was asked.
        limits: What all workers together may ask of it. None = as much as they like.
    """

    name: str
    base_url: str = field(repr=False)
    api_key: SecretStr | None = None
    api: Api = "chat_completions"
    headers: Mapping[str, SecretStr] = field(default_factory=dict[str, SecretStr], repr=False)
    overrides: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)
    guarded: bool = False
    stream: bool = True
    limits: ProviderLimits | None = None


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """A tool as a model sees it; `parameters` is a JSON schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """One model call.

    Args:
        provider: Where to send it; its `api` must be the one that `entries` were written in.
        model: The model's name at the provider.
        system: The system prompt, not part of the thread. "" = none.
        entries: The thread: JSON fragments in the API's own format, sent as they are, in order.
        tools: Offered tools, in a stable order (servers cache prompts by prefix). Empty = none are mentioned.
        params: `temperature`, `top_p`, `max_tokens` (output tokens, in either API) and anything else the
            server knows, passed on as it is. None values are left out. Cannot set the request's structure
            (model, history, tools, streaming).
    """

    provider: Provider
    model: str
    system: str = field(default="", repr=False)
    entries: Sequence[str] = field(default=(), repr=False)
    tools: Sequence[ToolSchema] = field(default=(), repr=False)
    params: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the model asks for; `call_id` is unique within its response, `arguments` is raw text.

    The text is what the model wrote and need not be JSON; an absent or blank one is `{}`.
    """

    call_id: str
    name: str
    arguments: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """Tokens of one call as the server counted them; cached are part of input, reasoning part of output."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResponse:
    """A finished answer.

    Args:
        text: The output text, "" if there is none.
        tool_calls: In the model's order.
        entry: What to append to the thread.
        usage: None = the server did not say (unknown, not zero).
        finish_reason: `stop`, `tool_calls`, `length`, `content_filter`, or a word of the server's own.
        refusal: The model's words of refusal, or `content_filter` if a filter cut it. None = not refused.
            A refusal is an answer that was paid for, so it is returned; the run that ends by it is
            CONTENT_REFUSED. A request that the server refuses to answer at all raises `ModelError` instead.
    """

    text: str = field(repr=False)
    tool_calls: tuple[ToolCall, ...] = ()
    entry: str = field(repr=False)
    usage: ModelUsage | None = None
    finish_reason: str = "stop"
    refusal: str | None = field(default=None, repr=False)


class ModelError(RetinueError):
    """A model call failed; the message is safe to log.

    Args:
        message: Our own words: provider, status, code. Never what was sent or received.
        classification: What the run ends with if nobody retries.
        retryable: Whether the same request may succeed later.
        retry_after_s: The server's wish in seconds, None = it named none.
        status: The HTTP status, None = no answer arrived.
        code: The server's error code, if it is a plain word.
        detail: The server's own words, at most 1,000 chars, credentials removed. They may quote the prompt:
            for the owner of the run, not for logs.
    """

    def __init__(
        self,
        message: str,
        *,
        classification: ErrorClassification = ErrorClassification.INTERNAL_ERROR,
        retryable: bool = False,
        retry_after_s: float | None = None,
        status: int | None = None,
        code: str | None = None,
        detail: str | None = None,
    ) -> None:
        super().__init__(message)
        self.classification = classification
        self.retryable = retryable
        self.retry_after_s = retry_after_s
        self.status = status
        self.code = code
        self.detail = detail


class Model(Protocol):
    """Answers requests; one try per call, retries belong to `RetryPolicy`."""

    async def complete(self, request: ModelRequest, *, on_delta: OnDelta | None = None) -> ModelResponse:
        """Send one request and return its whole answer.

        Raises:
            ModelError: No usable answer came.
        """
        ...
