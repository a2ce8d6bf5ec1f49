"""An agent with a tool that may run again and waits, and one that delegates to it."""

from __future__ import annotations

import time
from pathlib import Path

from retinue.agents import Agent, ToolContext, tool


@tool(toolset="tail", idempotent=True)
def until_there(name: str, ctx: ToolContext) -> str:
    """Wait for a file."""
    with open("ledger.txt", "a") as ledger:
        ledger.write(f"{ctx.idempotency_key} {name}\n")
    Path(f"{name}.started").touch()
    while not Path(f"{name}.there").exists():
        time.sleep(0.02)
    return f"{name} is there"


writer = Agent(name="writer", instructions="You are writer.", model="scripted", tools=[until_there])
boss = Agent(name="boss", instructions="You are boss.", model="scripted", sub_agents=[writer])
