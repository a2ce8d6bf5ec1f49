"""The thread that runs a worker's event loop."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator

import pytest

from retinue.worker.pool.loop_thread import LoopThread


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    thread = LoopThread("test-loop")
    thread.start()
    yield thread
    if not thread.loop.is_closed():
        assert thread.close(5)


def test_callbacks_run_on_the_loop_in_their_order(thread: LoopThread) -> None:
    seen: list[int] = []
    done = threading.Event()
    for number in range(100):
        thread.post(lambda number=number: seen.append(number))
    thread.post(done.set)

    assert done.wait(30)
    assert seen == list(range(100))


def test_a_coroutine_gives_its_result_to_another_thread(thread: LoopThread) -> None:
    async def name() -> str:
        return threading.current_thread().name

    assert thread.call(name()).result(30) == "test-loop"


async def _exit() -> None:
    sys.exit("in a task of its own")


async def _exit_in_a_task() -> None:
    task = asyncio.create_task(_exit())
    await asyncio.wait([task])
    task.exception()


def test_the_loop_goes_on_after_an_exit_in_a_task(
    thread: LoopThread, caplog: pytest.LogCaptureFixture
) -> None:
    thread.call(_exit_in_a_task()).result(30)

    assert thread.call(asyncio.sleep(0, "still here")).result(30) == "still here"
    assert "loop.interrupted error=SystemExit" in caplog.text


def test_a_callback_that_fails_does_not_hold_up_those_after_it(thread: LoopThread) -> None:
    done = threading.Event()
    thread.post(lambda: 1 // 0)
    thread.post(done.set)

    assert done.wait(30)


def test_a_blocked_loop_is_given_up_after_a_while(thread: LoopThread) -> None:
    release = threading.Event()
    thread.post(lambda: release.wait(20))

    assert not thread.close(0.1)
    release.set()
