"""Asking a worker process to drain: the request stands in the store, and a hint wakes who looks for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from retinue.store import keys
from retinue.store.call import CommandCall

ASKED_S: Final = 3600
"""How long a request stands, in seconds: for a process whose connection is away just now."""

HINT: Final = "drain"
"""The first word of what is published on the process's channel."""


def ask_to_drain(process: str) -> tuple[CommandCall[bool], CommandCall[bool]]:
    """The request and its hint, to be run in this order; without the hint it is seen some seconds later."""
    return (
        CommandCall(("SET", keys.drain(process), "1", "EX", ASKED_S), bool),
        CommandCall(("PUBLISH", keys.process_channel(process), HINT), bool),
    )


def read_asked(processes: Sequence[str]) -> CommandCall[frozenset[str]]:
    """Which of the processes were asked to drain; at least one must be named."""

    def parse(reply: Any) -> frozenset[str]:
        return frozenset(name for name, asked in zip(processes, reply, strict=True) if asked is not None)

    return CommandCall(("MGET", *map(keys.drain, processes)), parse)
