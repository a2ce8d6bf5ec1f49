"""A boss, its leads and their hands, who wait in a tool; and agents that end in other ways than well."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from retinue.agents import Agent, AgentConfig, SubAgent, tool


@tool(toolset="work")
def look(at: str) -> str:
    """Look at something."""
    return f"saw {at}"


@tool(toolset="work", idempotent=True)
async def hold_on(gate: str) -> str:
    """Wait until a file of that name is there."""
    while not Path(gate).exists():  # noqa: ASYNC110, ASYNC240
        await asyncio.sleep(0.02)
    return "went on"


@tool(toolset="work", idempotent=True)
def die() -> str:
    """Kill the worker, each time."""
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


class Quiet:
    """Knows only how to run, and tells nothing of what it used."""

    async def run(self, query: str) -> str:
        return f"ran {query}"


hand = Agent(name="hand", instructions="You are hand.", model="scripted", tools=[look, hold_on])
lead = Agent(name="lead", instructions="You are lead.", model="scripted", sub_agents=[hand])
quiet = SubAgent(name="quiet", agent=Quiet(), description="Says little.")
boss = Agent(name="boss", instructions="You are boss.", model="scripted", sub_agents=[lead, quiet])
doomed = Agent(name="doomed", instructions="You are doomed.", model="scripted", tools=[look, die])
brief = Agent(
    name="brief",
    instructions="You are brief.",
    model="scripted",
    tools=[look],
    config=AgentConfig(max_iterations=1),
)
unpriced = Agent(name="unpriced", instructions="You are unpriced.", model="nobody-knows", tools=[look])
