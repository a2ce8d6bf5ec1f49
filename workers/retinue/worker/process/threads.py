"""Synchronous code beside the event loop, in OS threads that never hold the process open.

The executors of the standard library are joined at exit, so one hung tool would keep a worker alive
for ever; a daemon thread does not.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


async def run_in_thread(function: Callable[[], T], *, name: str) -> T:
    """The function's result; its context variables are those of the caller.

    A cancelled wait leaves the thread running: nothing can stop it.

    Args:
        name: Of the thread, for whoever looks at a stack dump.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)  # pyright: ignore[reportArgumentType]
        else:
            future.set_exception(error)

    def body() -> None:
        result, error = None, None
        try:
            with _database_connections():
                result = context.run(function)
        except StopIteration as fault:
            # A future refuses this one, since it would end the coroutine that awaits it.
            error = RuntimeError(f"StopIteration: {fault}")
        except BaseException as fault:  # also SystemExit: a tool must not end its worker
            error = (
                fault if isinstance(fault, Exception) else RuntimeError(f"{type(fault).__name__}: {fault}")
            )
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            return  # the loop is closed: the process is on its way out

    threading.Thread(target=body, name=name, daemon=True).start()
    return await future


@contextmanager
def _database_connections() -> Generator[None]:
    # Django keeps a connection per thread and expects someone to drop the stale ones.
    if "django" not in sys.modules:
        yield
        return
    from django.conf import settings
    from django.db import close_old_connections

    if not settings.configured:
        yield
        return
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()
