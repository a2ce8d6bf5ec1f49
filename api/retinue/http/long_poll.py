"""Waits that take as long as a caller's patience: they end with the caller, and with the process."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request

from retinue.http.service import service_of

T = TypeVar("T")


async def long_poll(request: Request, wait: Coroutine[Any, Any, T]) -> T | None:
    """What a wait comes to.

    Args:
        request: Whose; its body has been read.
        wait: It is cancelled once the caller has gone, or the process is told to end.

    Returns:
        None if it was cancelled: the caller, if there still is one, is told how things stand.
    """
    waiting = asyncio.ensure_future(wait)
    leaving = asyncio.create_task(_gone(request), name="long-poll")
    try:
        either = asyncio.wait((waiting, leaving), return_when=asyncio.FIRST_COMPLETED)
        await service_of(request).unless_stopping(either)
        return waiting.result() if waiting.done() else None
    finally:
        for task in (leaving, waiting):
            task.cancel()
        await asyncio.gather(leaving, waiting, return_exceptions=True)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
