"""A boss with ten hands that look at things; a loner that does so by itself; one whose model has no price."""

from __future__ import annotations

import os
from pathlib import Path

from retinue.agents import Agent, AgentConfig, tool

LIMITS = AgentConfig(max_tokens=6_000)


@tool(toolset="work", idempotent=True)
def look(at: str) -> str:
    """Look at something."""
    with Path("ledger.txt").open("a") as ledger:
        ledger.write(f"{at} {os.getpid()}\n")
    return f"saw {at}"


hand = Agent(name="hand", instructions="You are hand.", model="scripted", tools=[look], config=LIMITS)
boss = Agent(name="boss", instructions="You are boss.", model="scripted", sub_agents=[hand], config=LIMITS)
loner = Agent(name="loner", instructions="You are loner.", model="scripted", tools=[look], config=LIMITS)
unpriced = Agent(name="unpriced", instructions="You are unpriced.", model="nobody-knows", tools=[look])
