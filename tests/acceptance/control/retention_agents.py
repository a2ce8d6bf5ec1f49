"""Agents for tests of what is kept: one that does nothing, and a boss that may wait for days."""

from __future__ import annotations

import os

from retinue.agents import Agent, AgentConfig, SubAgent, ToolContext, tool


class Nothing:
    """Answers at once, and leaves a byte in a file."""

    async def run(self, query: str) -> str:
        ran = os.open("ran", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(ran, b".")
        os.close(ran)
        return query


@tool(toolset="work", requires_confirmation=True)
def refund(order: int) -> str:
    """Pay an order back."""
    return f"refunded {order}"


@tool(toolset="work")
def send_out(task: str, ctx: ToolContext) -> str:
    """Launch a clerk and say what it said."""
    handle = ctx.subagent_lifecycle.launch(agent="clerk", goal=task)
    ctx.subagent_lifecycle.wait(handle)
    return str(ctx.subagent_lifecycle.result(handle).summary)


noop = SubAgent(name="noop", agent=Nothing(), description="Does nothing.")
clerk = Agent(name="clerk", instructions="You are clerk.", model="scripted")
boss = Agent(
    name="boss",
    instructions="You are boss.",
    model="scripted",
    tools=[refund, send_out],
    sub_agents=[clerk],
    config=AgentConfig(background=True),
)
