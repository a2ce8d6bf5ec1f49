"""An agent whose tools wait, in their own ways, and one whose tool lets nothing else of Python run."""

from __future__ import annotations

import asyncio
import ctypes
import time
from pathlib import Path

from retinue.agents import Agent, ToolContext, tool

_HANGS_S = 90.0


@tool(toolset="stale")
async def until_there(name: str) -> str:
    """Wait for a file."""
    _touch(f"{name}.started")
    while not Path(f"{name}.there").exists():  # noqa: ASYNC110, ASYNC240
        await asyncio.sleep(0.02)
    return "there"


@tool(toolset="stale")
async def until_cancelled(name: str) -> str:
    """Wait for the end of its task."""
    _touch(f"{name}.waits")
    try:
        await asyncio.sleep(_HANGS_S)
    except asyncio.CancelledError:
        _touch(f"{name}.cancelled")
        raise
    return "never"


@tool(toolset="stale")
def until_told(name: str, ctx: ToolContext) -> str:
    """Wait, in an OS thread, until it is told that it works for nothing."""
    _touch(f"{name}.hangs")
    end = time.monotonic() + _HANGS_S
    while not ctx.cancelled and time.monotonic() < end:
        time.sleep(0.02)
    _touch(f"{name}.told")
    return "told"


@tool(toolset="stale")
def hold_interpreter(name: str, seconds: float) -> str:
    """Keep the interpreter's lock, as a backtracking regular expression does."""
    _touch(f"{name}.holds")
    ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))
    return "let go"


def _touch(name: str) -> None:
    Path(name).touch()


waiter = Agent(
    name="waiter",
    instructions="You are waiter.",
    model="scripted",
    tools=[until_there, until_cancelled, until_told],
)
holder = Agent(name="holder", instructions="You are holder.", model="scripted", tools=[hold_interpreter])
