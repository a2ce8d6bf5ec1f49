"""Code that is not ours: what it raises is told from a cancel of whoever waits for it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from retinue.worker.run.foreign import call_foreign


async def test_a_coroutine_functions_result_comes_back() -> None:
    async def add() -> int:
        await asyncio.sleep(0)
        return 3

    assert await call_foreign(add, is_async=True, name="t") == 3


async def test_a_plain_function_runs_in_a_thread_and_what_it_returns_may_be_awaited() -> None:
    async def later(name: str) -> str:
        return name

    def start() -> object:
        return later(threading.current_thread().name)

    assert await call_foreign(start, is_async=False, name="tool:add") == "tool:add"


@pytest.mark.parametrize(
    ("leave", "text"),
    [
        (asyncio.CancelledError(), "CancelledError"),
        (asyncio.CancelledError("why"), "CancelledError: why"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (GeneratorExit(), "GeneratorExit"),
    ],
)
async def test_what_would_end_more_than_the_call_comes_back_as_an_error(
    leave: BaseException, text: str
) -> None:
    async def fail() -> None:
        raise leave

    with pytest.raises(RuntimeError) as caught:
        await call_foreign(fail, is_async=True, name="t")
    assert str(caught.value) == text


async def test_an_exception_comes_back_as_it_is() -> None:
    fault = KeyError("order 7")

    async def fail() -> None:
        raise fault

    with pytest.raises(KeyError) as caught:
        await call_foreign(fail, is_async=True, name="t")
    assert caught.value is fault


async def test_a_cancel_of_the_caller_cancels_the_call_and_stays_a_cancel() -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    caller = asyncio.create_task(call_foreign(wait, is_async=True, name="t"))
    await started.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert cancelled.is_set()
