"""Canaries: messages that ask whether what comes to a queue is taken. The answer stands in the store.

That a worker lives tells its lease; that it takes work, only a message that it takes. One whose slots are all
taken pops nothing on purpose: so it is also asked on its channel, and says that it is full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from retinue.broker.routes import queue_key
from retinue.store import keys
from retinue.store.call import CommandCall, text

LIFE_MS: Final = 15_000
"""How long a question, and an answer, stands in the store, in milliseconds."""

HINT: Final = "canary"
"""The first word of what is published on the process's channel."""

_FULL: Final = "full"
_TAKEN: Final = "taken"


@dataclass(frozen=True, slots=True)
class CanaryAnswer:
    """What became of a canary.

    Args:
        process: Who answered.
        is_full: It did not take it: all its slots are taken.
    """

    process: str
    is_full: bool


def answer_canary(nonce: str, process: str, *, is_full: bool) -> CommandCall[bool]:
    """Says that a process has taken a canary, or is full."""
    value = f"{process} {_FULL if is_full else _TAKEN}"
    return CommandCall(("SET", keys.canary(nonce), value, "PX", LIFE_MS), bool)


def read_canaries(nonces: Sequence[str]) -> CommandCall[dict[str, CanaryAnswer]]:
    """The answers that there are, by nonce; at least one canary must be named."""

    def parse(reply: Any) -> dict[str, CanaryAnswer]:
        found = ((nonce, text(raw).partition(" ")) for nonce, raw in zip(nonces, reply, strict=True) if raw)
        return {nonce: CanaryAnswer(process, how == _FULL) for nonce, (process, _, how) in found}

    return CommandCall(("MGET", *map(keys.canary, nonces)), parse)


def ask_if_full(process: str, nonces: Sequence[str]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The commands that ask a process to answer these canaries if it is full."""
    return (
        ("SET", keys.canary(process), " ".join(nonces), "PX", LIFE_MS),
        ("PUBLISH", keys.process_channel(process), HINT),
    )


def read_asked(process: str) -> CommandCall[list[str]]:
    """The canaries that a process is to answer if it is full."""

    def parse(reply: Any) -> list[str]:
        return text(reply).split()

    return CommandCall(("GET", keys.canary(process)), parse)


def send_canary(queue: str, envelope: bytes) -> tuple[Any, ...]:
    """The command that lays a canary where the next pop of a queue finds it: it takes no run's place."""
    return ("RPUSH", queue_key(queue, 0), envelope)


def take_canary_back(queue: str, envelope: bytes) -> tuple[Any, ...]:
    """The command that removes what nobody took, sought from the end at which it was laid."""
    return ("LREM", queue_key(queue, 0), -2, envelope)
