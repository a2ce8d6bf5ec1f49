"""A process whose loop finds no memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import asyncio
from retinue.worker.process.exhaustion import end_if_exhausted, end_when_exhausted

def fail(error):
    raise error

async def fail_later(error):
    raise error

async def main():
    end_when_exhausted(asyncio.get_running_loop())
    {statement}
    await asyncio.sleep(0.1)
    print("went on")

asyncio.run(main())
"""
_TASK = "asyncio.create_task(fail_later({error})).add_done_callback(end_if_exhausted)"
_CALLBACK = "asyncio.get_running_loop().call_soon(fail, {error})"


def run(statement: str, error: str) -> tuple[int, str]:
    program = _PROGRAM.format(statement=statement.format(error=error))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout.strip()


@pytest.mark.parametrize("statement", [_TASK, _CALLBACK])
def test_a_process_without_memory_ends(statement: str) -> None:
    assert run(statement, "MemoryError()") == (137, "")


@pytest.mark.parametrize("statement", [_TASK, _CALLBACK])
def test_any_other_failure_leaves_the_loop_alone(statement: str) -> None:
    assert run(statement, "ValueError()") == (0, "went on")
