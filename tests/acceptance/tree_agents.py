"""Agents of five levels, each of which delegates to the next, and a chain whose tools launch and wait."""

from __future__ import annotations

import asyncio
import os
import signal

from retinue.agents import Agent, ToolContext, tool


@tool(toolset="ledger")
def append(line: str, ctx: ToolContext) -> str:
    """Append a line to the ledger; running it twice would show."""
    _write(ctx, line)
    return f"wrote {line}"


@tool(toolset="chain")
def hand_on(agent: str, task: str, ctx: ToolContext) -> str:
    """Launch an agent and wait for its answer."""
    lifecycle = ctx.subagent_lifecycle
    handle = lifecycle.launch(agent=agent, goal=task)
    ended = lifecycle.wait(handle, timeout_seconds=60)
    return f"{ended.state}: {lifecycle.result(handle).summary}"


@tool(toolset="chain", idempotent=True)
def hand_on_again(agent: str, task: str, ctx: ToolContext) -> str:
    """As hand_on, but may be run again: it finds the agent that it has launched before."""
    _write(ctx, "hand_on_again")
    return hand_on(agent, task, ctx)


@tool(toolset="fatal")
async def stall() -> str:
    """Take very long."""
    await asyncio.sleep(600)
    return "never"


@tool(toolset="fatal", idempotent=True)
def die(ctx: ToolContext) -> str:
    """Kill the worker, each time."""
    _write(ctx, "die")
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@tool(toolset="fatal")
def die_once(ctx: ToolContext) -> str:
    """Kill the worker; nobody can know whether it took effect."""
    _write(ctx, "die_once")
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


def _write(ctx: ToolContext, line: str) -> None:
    with open("ledger.txt", "a") as ledger:
        ledger.write(f"{ctx.idempotency_key} {line}\n")


level4 = Agent(name="level4", instructions="You are level4.", model="scripted", tools=[append])
level3 = Agent(name="level3", instructions="You are level3.", model="scripted", sub_agents=[level4])
level2 = Agent(name="level2", instructions="You are level2.", model="scripted", sub_agents=[level3])
level1 = Agent(name="level1", instructions="You are level1.", model="scripted", sub_agents=[level2])
level0 = Agent(name="level0", instructions="You are level0.", model="scripted", sub_agents=[level1])

link2 = Agent(name="link2", instructions="You are link2.", model="scripted", tools=[append])
link1 = Agent(name="link1", instructions="You are link1.", model="scripted", tools=[hand_on, hand_on_again])
link0 = Agent(name="link0", instructions="You are link0.", model="scripted", tools=[hand_on])

doomed = Agent(name="doomed", instructions="You are doomed.", model="scripted", tools=[die])
unlucky = Agent(name="unlucky", instructions="You are unlucky.", model="scripted", tools=[die_once])
boss = Agent(
    name="boss",
    instructions="You are boss.",
    model="scripted",
    tools=[stall],
    sub_agents=[doomed, level4],
)
