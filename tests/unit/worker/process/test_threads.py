"""Synchronous code in OS threads: what comes back, and what must not hold the process."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
from typing import Any

import pytest

from retinue.worker.process.threads import run_in_thread

USER = contextvars.ContextVar[str]("USER", default="nobody")


async def test_the_result_comes_back_from_a_named_daemon_thread() -> None:
    def where() -> tuple[str, bool, bool]:
        thread = threading.current_thread()
        return thread.name, thread.daemon, thread is threading.main_thread()

    assert await run_in_thread(where, name="tool:search") == ("tool:search", True, False)


async def test_an_exception_comes_back_as_it_is() -> None:
    fault = KeyError("order 7")

    def fail() -> None:
        raise fault

    with pytest.raises(KeyError) as caught:
        await run_in_thread(fail, name="t")
    assert caught.value is fault


@pytest.mark.parametrize(
    ("leave", "text"),
    [
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt: "),
        (StopIteration("end"), "StopIteration: end"),
        (GeneratorExit(), "GeneratorExit: "),
        (asyncio.CancelledError("no"), "CancelledError: no"),
    ],
)
async def test_what_would_end_more_than_the_tool_comes_back_as_an_error(
    leave: BaseException, text: str
) -> None:
    def fail() -> None:
        raise leave

    with pytest.raises(RuntimeError) as caught:
        await run_in_thread(fail, name="t")
    assert str(caught.value) == text


async def test_the_function_sees_the_callers_context_and_cannot_change_it() -> None:
    def visit() -> str:
        seen = USER.get()
        USER.set("somebody else")
        return seen

    USER.set("ada")
    assert await run_in_thread(visit, name="t") == "ada"
    assert USER.get() == "ada"


async def test_functions_run_side_by_side() -> None:
    meeting = threading.Barrier(3, timeout=30)

    await asyncio.gather(*(run_in_thread(meeting.wait, name=f"t{n}") for n in range(3)))


async def test_a_wait_that_is_cancelled_leaves_the_thread_and_nobody_hears_of_its_end() -> None:
    go_on, ended = threading.Event(), threading.Event()
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: complaints.append(context))

    def fail() -> None:
        go_on.wait(30)
        ended.set()
        raise ValueError("nobody listens")

    task = asyncio.create_task(run_in_thread(fail, name="t"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    assert ended.wait(30)
    for thread in threading.enumerate():
        if thread.name == "t":
            thread.join(30)
    await asyncio.sleep(0.01)  # its answer is taken, and dropped
    assert complaints == []


HUNG = """
import asyncio, threading
from retinue.worker.process.threads import run_in_thread

async def main():
    hung = asyncio.create_task(run_in_thread(threading.Event().wait, name="hung"))
    late = asyncio.create_task(run_in_thread(lambda: threading.Event().wait(0.2), name="late"))
    await asyncio.sleep(0.05)
    for task in (hung, late):
        task.cancel()
    await asyncio.wait([hung, late])
    print("left", flush=True)

asyncio.run(main())
for thread in threading.enumerate():
    if thread.name == "late":
        thread.join()  # it finds its loop closed
"""


def test_a_hung_function_does_not_hold_the_process() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", HUNG], capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "left\n", "")


DJANGO = """
import asyncio, threading
from django.conf import settings
settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}})
import django
django.setup()
from django.core import signals
from django.db import connection
from retinue.worker.process.threads import run_in_thread

def query():
    connection.ensure_connection()
    connection.close_at = 1  # older than it may be
    return connection.connection is not None

closed = []
def tool():
    opened = query()
    real = connection.close
    connection.close = lambda: (closed.append(threading.current_thread().name), real())
    return opened

assert asyncio.run(run_in_thread(tool, name="tool")) is True
assert closed == ["tool"], closed
try:
    asyncio.run(run_in_thread(lambda: next(iter(())), name="tool"))
except RuntimeError as fault:
    assert "StopIteration" in str(fault)
print("closed")
"""


def test_with_django_a_stale_connection_does_not_outlive_the_call() -> None:
    pytest.importorskip("django")
    done = subprocess.run(
        [sys.executable, "-c", DJANGO], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.stdout == "closed\n", done.stderr
