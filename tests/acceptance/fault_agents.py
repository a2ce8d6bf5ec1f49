"""Agents whose tools and objects misbehave: they raise what ends tasks, hang, or will not be cancelled."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from retinue.agents import Agent, SubAgent, ToolContext, tool

HANGS_S = 60.0


@tool(toolset="faults", read_only=True)
async def cancels(ctx: ToolContext) -> str:
    """Raise what a task raises that was cancelled."""
    _write(ctx, "cancels")
    raise asyncio.CancelledError


@tool(toolset="faults", read_only=True)
async def cancels_itself(ctx: ToolContext) -> str:
    """Cancel the task that it runs in."""
    _write(ctx, "cancels_itself")
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(HANGS_S)
    return "never"


@tool(toolset="faults", read_only=True)
async def exits(ctx: ToolContext) -> str:
    """Leave the program."""
    _write(ctx, "exits")
    sys.exit(3)


@tool(toolset="faults", read_only=True)
async def interrupts(ctx: ToolContext) -> str:
    """Do as if someone had pressed Ctrl-C."""
    _write(ctx, "interrupts")
    raise KeyboardInterrupt


@tool(toolset="faults", read_only=True)
def exits_in_thread(ctx: ToolContext) -> str:
    """Leave the program, from an OS thread."""
    _write(ctx, "exits_in_thread")
    sys.exit(3)


@tool(toolset="faults")
async def writes_slowly(ctx: ToolContext) -> str:
    """Take a moment."""
    await asyncio.sleep(0.3)
    _write(ctx, "writes_slowly")
    return "written"


@tool(toolset="faults")
def hangs(name: str, ctx: ToolContext) -> str:
    """Take no notice of a cancel, in an OS thread; say once that it was told of one."""
    _touch(f"{name}.started")
    end = time.monotonic() + HANGS_S
    while time.monotonic() < end:
        if ctx.cancelled:
            _touch(f"{name}.told")
        time.sleep(0.02)
    return "never"


@tool(toolset="faults")
async def stays(name: str, ctx: ToolContext) -> str:
    """Go on when its task is cancelled."""
    _touch(f"{name}.started")
    end = time.monotonic() + HANGS_S
    while time.monotonic() < end:
        if ctx.cancelled:
            _touch(f"{name}.told")
        try:
            await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            continue
    return "never"


@tool(toolset="faults")
async def cleans_up(name: str, ctx: ToolContext) -> str:
    """Stop by itself once it is told of a cancel, after a little work."""
    _touch(f"{name}.started")
    while not ctx.cancelled:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.3)
    _touch(f"{name}.told")
    return "cleaned up"


@tool(toolset="faults")
def takes_long(ctx: ToolContext) -> str:
    """Take longer than any drain."""
    _write(ctx, "takes_long")
    time.sleep(HANGS_S)
    return "never"


@tool(toolset="faults", read_only=True)
def takes_long_until(name: str, ctx: ToolContext) -> str:
    """Take longer than any drain, until a file is there; may run again."""
    _write(ctx, "takes_long_until")
    while not Path(name).exists():
        time.sleep(0.02)
    return f"found {name}"


class Canceller:
    """Raises what a task raises that was cancelled."""

    async def run(self, query: str) -> str:
        raise asyncio.CancelledError(query)


class Quitter:
    """Leaves the program."""

    async def run(self, query: str) -> str:
        sys.exit(query)


class Stayer:
    """Goes on when its task is cancelled."""

    async def run(self, query: str) -> str:
        _touch(f"{query}.started")
        end = time.monotonic() + HANGS_S
        while time.monotonic() < end:
            try:
                await asyncio.sleep(0.02)
            except asyncio.CancelledError:
                continue
        return "never"


def _write(ctx: ToolContext, line: str) -> None:
    with open("ledger.txt", "a") as ledger:
        ledger.write(f"{ctx.idempotency_key} {line}\n")


def _touch(name: str) -> None:
    Path(name).touch()


faulty = Agent(
    name="faulty",
    instructions="You are faulty.",
    model="scripted",
    tools=[
        cancels, cancels_itself, exits, interrupts, exits_in_thread, writes_slowly,
        hangs, stays, cleans_up, takes_long, takes_long_until,
    ],
)  # fmt: skip
canceller = SubAgent(name="canceller", agent=Canceller(), description="Raises CancelledError.")
quitter = SubAgent(name="quitter", agent=Quitter(), description="Exits.")
stayer = SubAgent(name="stayer", agent=Stayer(), description="Stays.")
