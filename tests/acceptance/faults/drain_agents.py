"""Agents for workers that drain: they delegate, use tools of every length, and wait inside them."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from retinue.agents import Agent, ToolContext, tool


@tool(toolset="drain")
def append(line: str, ctx: ToolContext) -> str:
    """Append a line to the ledger; running it twice would show."""
    _write(ctx, line)
    return f"wrote {line}"


@tool(toolset="drain")
async def take_time(line: str, ctx: ToolContext) -> str:
    """Append a line after a moment."""
    await asyncio.sleep(0.2)
    _write(ctx, line)
    return f"took {line}"


@tool(toolset="drain")
def hand_on(task: str, ctx: ToolContext) -> str:
    """Launch a leaf and wait for it."""
    lifecycle = ctx.subagent_lifecycle
    handle = lifecycle.launch(agent="leaf", goal=task)
    lifecycle.wait(handle, timeout_seconds=60)
    _write(ctx, f"hand_on {task}")
    return str(lifecycle.result(handle).summary)


@tool(toolset="drain", idempotent=True)
def hand_on_again(task: str, ctx: ToolContext) -> str:
    """As hand_on, but may be run again: it finds the leaf that it has launched before."""
    return hand_on(task, ctx)


@tool(toolset="drain")
def hang(name: str, ctx: ToolContext) -> str:
    """Hang, until a file is there."""
    _write(ctx, f"hang {name}")
    Path(f"{name}.hangs").touch()
    while not Path(f"{name}.go").exists():
        time.sleep(0.02)
    return "never"


def _write(ctx: ToolContext, line: str) -> None:
    with open("ledger.txt", "a") as ledger:
        ledger.write(f"{ctx.idempotency_key} {line}\n")


TOOLS = (append, take_time, hand_on, hand_on_again, hang)
leaf = Agent(name="leaf", instructions="You are leaf.", model="scripted", tools=TOOLS)
boss = Agent(name="boss", instructions="You are boss.", model="scripted", tools=TOOLS, sub_agents=[leaf])
