"""Places at model providers with limits, shared by all workers: who may send a request now.

The limits are the settings'; the store holds what is used of them. A place is the right to send one
request; its name begins with its process, so that whoever buries the process finds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from retinue.store import keys
from retinue.store.call import ScriptCall, count_or_none, text, unexpected
from retinue.store.scripts import script

HELD_MS: Final = 60_000
"""How long a place is held that nobody renews, nor gives back."""

RENEW_EVERY_S = 20.0
"""Seconds between renewals of a place whose request is under way."""

ASK_AGAIN_MS: Final = 5_000
"""Longest pause between two asks of one that waits; after three it has lost its turn."""


@dataclass(frozen=True, slots=True)
class ProviderLimits:
    """What a provider takes, from all workers together. None = no limit of that kind.

    Args:
        max_concurrency: Requests at a time.
        requests_per_minute: Requests in any minute.
        tokens_per_minute: Input and output tokens in any minute, up to one request more.
    """

    max_concurrency: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None

    def argv(self) -> tuple[int | str, int | str, int | str]:
        return (
            count_or_none(self.max_concurrency),
            count_or_none(self.requests_per_minute),
            count_or_none(self.tokens_per_minute),
        )


def acquire_place(provider: str, place: str, limits: ProviderLimits, *, tokens: int) -> ScriptCall[int]:
    """Asks for a place; a repeat of one that was given is given again, and not counted twice.

    Args:
        provider: Its name in the settings.
        place: `<process>:<unique within it>`, new for each request.
        tokens: That the request may take, input and output.

    Returns:
        A call that answers 0 = send the request; else in how many ms to ask again, unless `place` is told
        on the process's channel before.
    """

    def parse(reply: Any) -> int:
        match text(reply[0]):
            case "GO":
                return 0
            case "WAIT":
                return int(reply[1])
            case _:
                raise unexpected("acquire_place", reply)

    argv = (place, *limits.argv(), tokens, HELD_MS, ASK_AGAIN_MS)
    return ScriptCall(script("acquire_place"), keys.provider_places(provider), argv, parse)


def release_place(
    provider: str, place: str, limits: ProviderLimits, *, unused_tokens: int = 0, closed_ms: int = 0
) -> ScriptCall[None]:
    """Gives a place back, or the turn in the queue; a repeat changes nothing.

    Args:
        unused_tokens: Of those it was charged with; below 0 = it took more.
        closed_ms: For how long the provider wants no further request of anybody; 0 = it did not say.
    """
    argv = (place, *limits.argv(), unused_tokens, closed_ms)
    return ScriptCall(script("release_place"), keys.provider_places(provider), argv, _ignored)


def renew_place(provider: str, place: str) -> ScriptCall[None]:
    """Holds a place for another while."""
    held = keys.provider_places(provider)[1:2]
    return ScriptCall(script("renew_place"), held, (place, HELD_MS), _ignored)


def free_places(provider: str, process: str, limits: ProviderLimits) -> ScriptCall[int]:
    """Takes a process that is gone out of a provider's places and queue; answers how many it held."""

    def parse(reply: Any) -> int:
        return int(reply[1])

    argv = (process, count_or_none(limits.max_concurrency))
    return ScriptCall(script("free_places"), keys.provider_places(provider)[1:], argv, parse)


def _ignored(_reply: Any) -> None:
    return None
