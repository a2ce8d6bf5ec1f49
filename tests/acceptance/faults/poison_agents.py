"""Agents whose tools take their process with them, and neighbours that do nothing of the kind."""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

from retinue.agents import Agent, ToolContext, tool

HOARD_MAX_BYTES = 64 * 1024 * 1024
_hoard: list[bytearray] = []


@tool(toolset="poison", read_only=True)
def segfault(ctx: ToolContext) -> str:
    """Read from where nothing is."""
    _strike(ctx)
    return str(ctypes.string_at(0))


@tool(toolset="poison", read_only=True)
def leave(ctx: ToolContext) -> str:
    """Leave the process without a word."""
    _strike(ctx)
    os._exit(137)


@tool(toolset="poison", read_only=True)
def outgrow(ctx: ToolContext) -> str:
    """Die as the kernel lets a process die that has outgrown its container."""
    _strike(ctx)
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@tool(toolset="poison", read_only=True)
def exhaust(ctx: ToolContext) -> str:
    """Take all the memory that the process may have, and keep it."""
    _count(ctx)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + HOARD_MAX_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    threading.Thread(target=_take_what_comes_free, daemon=True).start()
    _take_all()
    return "all of it"


def _take_all() -> None:
    size = HOARD_MAX_BYTES // 4
    while size > 16:
        try:
            _hoard.append(bytearray(size))
        except MemoryError:
            size //= 2


def _take_what_comes_free() -> None:
    while True:
        with suppress(MemoryError):
            _take_all()
        time.sleep(0.001)


@tool(toolset="poison", read_only=True)
async def rest(ctx: ToolContext) -> str:
    """Rest until a file is there."""
    _count(ctx)
    while not Path("go").exists():  # noqa: ASYNC110, ASYNC240
        await asyncio.sleep(0.05)
    return f"rested in {os.getpid()}"


def _strike(ctx: ToolContext) -> None:
    """Returns once a file is there: whoever did not get as far as this would be no suspect."""
    _count(ctx)
    while not Path("strike").exists():
        time.sleep(0.02)


def _count(ctx: ToolContext) -> None:
    with Path("ledger.txt").open("a") as ledger:
        ledger.write(f"{ctx.run_id} {os.getpid()}\n")


poisonous = Agent(
    name="poisonous",
    instructions="You are poisonous. Do what you are asked for.",
    model="gpt-5-mini",
    tools=[segfault, leave, outgrow, exhaust],
)
neighbour = Agent(
    name="neighbour", instructions="You are a neighbour. Rest.", model="gpt-5-mini", tools=[rest]
)
