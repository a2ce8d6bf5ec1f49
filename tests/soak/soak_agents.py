"""The agents of a soak. Each tool leaves a line in the ledger: its call's key, the time, and its name."""

from __future__ import annotations

import asyncio
import time

from retinue.agents import Agent, ToolContext, tool


@tool(toolset="soak")
def note(line: str, ctx: ToolContext) -> str:
    """Write a line; once begun it must not be done again."""
    _write(ctx, "note")
    return f"noted {line}"


@tool(toolset="soak", idempotent=True)
async def measure(ctx: ToolContext) -> str:
    """Take a while; may be done again under the same key."""
    _write(ctx, "measure")
    await asyncio.sleep(0.3)
    return "measured"


@tool(toolset="soak", requires_confirmation=True)
def refund(order: str, ctx: ToolContext) -> str:
    """Pay back, once a human has approved it."""
    _write(ctx, "refund")
    return f"refunded {order}"


@tool(toolset="soak", idempotent=True)
def ask_and_wait(task: str, ctx: ToolContext) -> str:
    """Launch a leaf and wait for it inside the tool."""
    _write(ctx, "ask_and_wait")
    lifecycle = ctx.subagent_lifecycle
    handle = lifecycle.launch(agent="leaf", goal=task)
    ended = lifecycle.wait(handle, timeout_seconds=60)
    return f"{ended.state}: {lifecycle.result(handle).summary}"


def _write(ctx: ToolContext, name: str) -> None:
    with open("ledger.txt", "a") as ledger:
        ledger.write(f"{ctx.idempotency_key} {time.time():.3f} {name}\n")


leaf = Agent(name="leaf", instructions="You are leaf.", model="scripted", tools=[note])
boss = Agent(name="boss", instructions="You are boss.", model="scripted", sub_agents=[leaf])
chief = Agent(name="chief", instructions="You are chief.", model="scripted", sub_agents=[boss])
clerk = Agent(name="clerk", instructions="You are clerk.", model="scripted", tools=[refund, note])
waiter = Agent(name="waiter", instructions="You are waiter.", model="scripted", tools=[ask_and_wait])
walker = Agent(name="walker", instructions="You are walker.", model="scripted", tools=[note, measure])
probe = Agent(name="probe", instructions="You are probe.", model="scripted")
