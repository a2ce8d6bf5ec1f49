"""The few ways in which servers of one API differ, guessed from the URL and corrected by their answers."""

import re
from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import urlsplit

from retinue.worker.models.base import ModelError, Provider

_OPENAI_HOSTS = (".openai.com", ".openai.azure.com", ".cognitiveservices.azure.com")
_REFUSED = re.compile(r"unsupported|not supported|not permitted|not allowed|unrecognized|unknown|unexpected")


@dataclass(frozen=True, slots=True)
class Dialect:
    """How to word a request for one model of one server.

    Args:
        limit_key: Chat completions' name for the output limit. OpenAI's newer models answer 400 to
            `max_tokens`; most other servers know only that (vLLM knows both).
        limit_is_certain: The other name was refused already.
        encrypted_reasoning: Whether to ask for encrypted reasoning items (responses). Models that do not
            reason, gpt-4o for one, answer 400 to it.
    """

    limit_key: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    limit_is_certain: bool = False
    encrypted_reasoning: bool = True

    @classmethod
    def of(cls, provider: Provider) -> "Dialect":
        """The likely dialect of a provider."""
        return cls("max_completion_tokens" if is_openai(provider) else "max_tokens")

    def after(self, error: ModelError) -> "Dialect | None":
        """The dialect to try once more, None if the error is not about one."""
        if error.status not in (400, 422) or error.detail is None:
            return None
        said = error.detail.lower()
        if self.encrypted_reasoning and re.search(r"encrypted.content", said):
            return replace(self, encrypted_reasoning=False)
        if not self.limit_is_certain and self.limit_key in said and _REFUSED.search(said):
            other = "max_tokens" if self.limit_key == "max_completion_tokens" else "max_completion_tokens"
            return replace(self, limit_key=other, limit_is_certain=True)
        return None


def is_openai(provider: Provider) -> bool:
    """Whether the provider is OpenAI itself, or Azure's hosting of it."""
    try:
        host = urlsplit(provider.base_url).hostname or ""
    except ValueError:  # no URL at all, which the call will say
        return False
    return f".{host}".endswith(_OPENAI_HOSTS)
