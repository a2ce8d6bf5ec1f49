"""Agents that tell of themselves while they work: a teller, and a digger whose tool reports progress."""

from __future__ import annotations

import time
from pathlib import Path

from retinue.agents import Agent, ToolContext, tool

WAITS_S = 60.0


@tool
def dig(ctx: ToolContext) -> str:
    """Dig, and say how far it has come."""
    ctx.report_progress("half way")
    deadline = time.monotonic() + WAITS_S
    while not Path("dug").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return "found"


teller = Agent(name="teller", instructions="You are teller.", model="scripted")
digger = Agent(name="digger", instructions="You are digger.", model="scripted", tools=[dig])
