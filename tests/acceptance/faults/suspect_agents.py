"""Agents that tell which process they are in, and whose tools wait, or hold it up, the first time."""

from __future__ import annotations

import asyncio
import ctypes
import os
from pathlib import Path

from retinue.agents import Agent, ToolContext, tool


@tool(toolset="suspect", read_only=True)
def where(name: str, ctx: ToolContext) -> str:
    """Say where it is."""
    _note(ctx, name)
    return f"at {name}"


@tool(toolset="suspect", read_only=True)
async def wait(name: str, ctx: ToolContext) -> str:
    """Wait until a file is there."""
    _note(ctx, name)
    while not Path(f"{name}.go").exists():  # noqa: ASYNC110, ASYNC240
        await asyncio.sleep(0.02)
    return f"waited for {name}"


@tool(toolset="suspect", read_only=True)
def grip(name: str, ctx: ToolContext) -> str:
    """Let no other thread of the process run, the first time."""
    if _note(ctx, name) == 1:
        ctypes.PyDLL(None).sleep(600)
    return f"gripped {name}"


def _note(ctx: ToolContext, name: str) -> int:
    """Writes run, name and process down; tells how often this was written so far."""
    ledger = Path("ledger.txt")
    with ledger.open("a") as lines:
        lines.write(f"{ctx.run_id} {name} {os.getpid()}\n")
    return sum(line.split()[:2] == [ctx.run_id, name] for line in ledger.read_text().splitlines())


TOOLS = (where, wait, grip)
leaf = Agent(name="leaf", instructions="You are leaf.", model="scripted", tools=TOOLS)
boss = Agent(name="boss", instructions="You are boss.", model="scripted", tools=TOOLS, sub_agents=[leaf])
