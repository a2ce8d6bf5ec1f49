"""The store in two colours: the same calls, run over a synchronous or an asynchronous link."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from retinue.store.call import CommandCall, ScriptCall
from retinue.store.script import Script

T = TypeVar("T")


class Link(Protocol):
    """How the synchronous store reaches the server."""

    def execute(self, *args: Any) -> Any: ...
    def evalsha(self, script: Script, keys: Sequence[str], argv: Sequence[Any]) -> Any: ...


class AwaitableLink(Protocol):
    """How the asynchronous store reaches the server."""

    async def execute(self, *args: Any) -> Any: ...
    async def evalsha(self, script: Script, keys: Sequence[str], argv: Sequence[Any]) -> Any: ...


class Store:
    """Runs calls one by one.

    Args:
        link: The connection; it repeats a call whose reply was lost, which every operation allows.
    """

    def __init__(self, link: Link) -> None:
        self._link = link

    def run(self, call: ScriptCall[T] | CommandCall[T]) -> T:
        """Runs one call and reads its reply.

        Raises:
            StoreUnavailableError: No connection or no reply in time; the outcome is unknown.
            StoreMemoryError: The server is at maxmemory; nothing was changed.
            StoreReplyError: An error reply, or one that this version does not know.
        """
        if isinstance(call, ScriptCall):
            return call.parse(self._link.evalsha(call.script, call.keys, call.argv))
        return call.parse(self._link.execute(*call.command))


class AsyncStore:
    """Runs calls concurrently; mirrors `Store`."""

    def __init__(self, link: AwaitableLink) -> None:
        self._link = link

    async def run(self, call: ScriptCall[T] | CommandCall[T]) -> T:
        """Mirrors `Store.run`."""
        if isinstance(call, ScriptCall):
            return call.parse(await self._link.evalsha(call.script, call.keys, call.argv))
        return call.parse(await self._link.execute(*call.command))
