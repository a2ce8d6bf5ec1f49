"""Calling code that is not ours: whatever it raises is its failure, and ends neither task nor worker."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import cast

from retinue.worker.process.threads import run_in_thread


async def call_foreign(function: Callable[[], object], *, is_async: bool, name: str) -> object:
    """What the function returns, awaited where that is to be awaited.

    Args:
        is_async: It returns an awaitable and belongs on the loop; else it gets an OS thread.
        name: Of the thread.

    Raises:
        Exception: What it raised. A CancelledError, SystemExit or KeyboardInterrupt of its own comes as a
            RuntimeError that names it.
        CancelledError: The caller was cancelled.
    """
    task = start_foreign(function, is_async=is_async, name=name)
    try:
        return await task
    except asyncio.CancelledError as fault:
        current = asyncio.current_task()
        if current is None or current.cancelling():
            raise
        raise _named(fault) from None
    except Exception:
        raise
    except BaseException as fault:
        raise _named(fault) from None


def start_foreign(function: Callable[[], object], *, is_async: bool, name: str) -> asyncio.Task[object]:
    """Starts such a call, in a task of its own: code that cancels its task does not cancel ours.

    Args:
        is_async, name: As for `call_foreign`.
    """
    return asyncio.create_task(_call(function, is_async=is_async, name=name))


def foreign_result(task: asyncio.Task[object]) -> object:
    """What a call that is done returned.

    Args:
        task: As `start_foreign` gave it; whoever cancels it does not ask for its result.

    Raises:
        Exception: As `call_foreign`.
    """
    try:
        return task.result()
    except Exception:
        raise
    except BaseException as fault:
        raise _named(fault) from None


async def _call(function: Callable[[], object], *, is_async: bool, name: str) -> object:
    try:
        if is_async:
            return await cast("asyncio.Future[object]", function())
        value = await run_in_thread(function, name=name)
        return await value if inspect.isawaitable(value) else value
    except (SystemExit, KeyboardInterrupt) as fault:
        # Beyond this frame, asyncio would let them out of the loop.
        raise _named(fault) from None


def _named(fault: BaseException) -> RuntimeError:
    text = str(fault)
    return RuntimeError(f"{type(fault).__name__}: {text}" if text else type(fault).__name__)
