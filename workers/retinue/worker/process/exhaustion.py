"""A process that has no memory left: it ends at once, so that its runs go on elsewhere.

Without memory a loop neither works nor fails. It drops what it reads, tries again for ever, and its signs of
life, which need next to nothing, keep everybody else from taking its runs.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any, Final

_STATUS: Final = 137
"""What a process that the kernel killed for its memory leaves in a shell."""

# Made beforehand: there is nothing left to make it of.
_LAST_WORDS: Final = b"retinue: the process has no memory left, and ends\n"


def end_when_exhausted(loop: asyncio.AbstractEventLoop) -> None:
    """Ends the process as soon as something on a loop, other than a run's own code, finds no memory."""
    loop.set_exception_handler(_handle)


def end_if_exhausted(task: asyncio.Task[Any]) -> None:
    """The same where a task of the worker itself has ended by it; for `Task.add_done_callback`."""
    if not task.cancelled() and isinstance(task.exception(), MemoryError):
        _end()


def _handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    if isinstance(context.get("exception"), MemoryError):
        _end()
    loop.default_exception_handler(context)


def _end() -> None:
    os.write(2, _LAST_WORDS)
    os._exit(_STATUS)
