"""An agent whose tool blocks the event loop of its worker, and one that does nothing of the kind."""

from __future__ import annotations

import time
from pathlib import Path

from retinue.agents import Agent, tool


@tool(toolset="trouble")
async def block() -> str:
    """Blocks the loop until a file is there, as code that ought to have been asynchronous does."""
    Path("blocked").touch()  # noqa: ASYNC240
    while not Path("go_on").exists():  # noqa: ASYNC240
        time.sleep(0.02)  # noqa: ASYNC251
    return "went on"


hanging = Agent(name="hanging", instructions="You are hanging. Block.", model="gpt-5-mini", tools=[block])
quick = Agent(name="quick", instructions="You are quick. Answer.", model="gpt-5-mini")
