"""One operation on the store as a value: what to send, and how to read the reply.

Pure, so that the synchronous and the asynchronous store run the very same calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from retinue.contract import StoreReplyError
from retinue.store import keys
from retinue.store.script import Script
from retinue.store.scripts import script

T = TypeVar("T")
Argument = str | bytes | int | float


@dataclass(frozen=True, slots=True)
class ScriptCall(Generic[T]):
    """A call of a script.

    Args:
        script: Which one.
        keys: The keys that it declares.
        argv: Its arguments, in the order of its head comment.
        parse: Makes the answer of the reply.
    """

    script: Script
    keys: tuple[str, ...]
    argv: tuple[Argument, ...]
    parse: Callable[[Any], T]


@dataclass(frozen=True, slots=True)
class CommandCall(Generic[T]):
    """A call of one plain command: reads, leases, the catalogue."""

    command: tuple[Argument, ...]
    parse: Callable[[Any], T]


@dataclass(frozen=True, slots=True)
class RunKey:
    """Which run: its tenant and id."""

    tenant: str
    run_id: str

    @property
    def record(self) -> str:
        return keys.record(self.tenant, self.run_id)

    @property
    def member(self) -> str:
        return keys.member(self.tenant, self.run_id)


def on_run(name: str, run: RunKey, argv: Sequence[Argument], parse: Callable[[Any], T]) -> ScriptCall[T]:
    """A call whose first four arguments are both prefixes, the tenant and the run id."""
    tenant_prefix, partition_prefix = keys.prefixes(run.tenant, run.run_id)
    return ScriptCall(
        script(name),
        (run.record,),
        (tenant_prefix, partition_prefix, run.tenant, run.run_id, *argv),
        parse,
    )


def count_or_none(value: int | None) -> int | str:
    """A count as an argument; "" stands for None, which 0 is not."""
    return "" if value is None else value


def text(value: Any) -> str:
    """A reply element as text; absent stays empty."""
    return value.decode() if isinstance(value, bytes) else "" if value is None else str(value)


def texts(values: Sequence[Any]) -> list[str]:
    return [text(value) for value in values]


def mapping(flat: Sequence[Any]) -> dict[str, str]:
    """The fields of a hash, from the flat list that Lua and RESP2 give."""
    words = [word.decode() for word in flat]  # a record has 42 fields, and is read at each claim
    return dict(zip(words[::2], words[1::2], strict=True))


def unexpected(operation: str, reply: Any) -> StoreReplyError:
    """For a reply that none of the operation's cases covers."""
    head = text(reply[0]) if isinstance(reply, list) and reply else type(reply).__name__
    return StoreReplyError(f"{operation} answered {head}, which this version does not know")
