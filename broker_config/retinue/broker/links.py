"""Links to a server as the broker's parts need them, so that none depends on how one is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Executes(Protocol):
    """A link for code without an event loop, such as SyncLink."""

    def execute(self, *args: Any) -> Any:
        """Run one command."""


class AsyncExecutes(Protocol):
    """A link such as AsyncLink."""

    async def execute(self, *args: Any) -> Any:
        """Run one command."""


class Pipelines(AsyncExecutes, Protocol):
    """A link that runs several commands in one round trip; errors come back in their place."""

    async def pipeline(self, commands: Any, /) -> list[Any]:
        """Run commands, each a tuple of name and arguments."""
        ...


async def run_pipeline(link: Pipelines, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The replies to all commands, in order.

    Raises:
        StoreError: The server could not be asked, or refused one of them.
    """
    return checked_replies(await link.pipeline(commands))


def checked_replies(replies: list[Any]) -> list[Any]:
    """The replies of a pipeline.

    Raises:
        StoreError: The server refused one of the commands.
    """
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies
