"""Agents for clients that die: a leaf, a boss with leaves, a clerk who asks first, one who asks where."""

from __future__ import annotations

import time
from pathlib import Path

from pyagentspec.agent import Agent as SpecAgent
from pyagentspec.llms import OpenAiConfig
from pyagentspec.property import StringProperty
from pyagentspec.tools import ClientTool

from retinue.agents import Agent, ToolContext, load_agent_spec, tool


@tool(requires_confirmation=True)
def pay(line: str, ctx: ToolContext) -> str:
    """Pay, once someone agreed; running it twice would show."""
    with open("ledger.txt", "a") as ledger:
        ledger.write(f"{ctx.idempotency_key} {line}\n")
    return f"paid {line}"


@tool(toolset="patience")
def wait() -> str:
    """Wait until a file is there."""
    while not Path("go").exists():
        time.sleep(0.02)
    return "went on"


leaf = Agent(name="leaf", instructions="You are leaf.", model="scripted", tools=[wait])
boss = Agent(name="boss", instructions="You are boss.", model="scripted", sub_agents=[leaf])
clerk = Agent(name="clerk", instructions="You are clerk.", model="scripted", tools=[pay])
locator = load_agent_spec(
    SpecAgent(
        name="locator",
        description="Knows where the caller is.",
        system_prompt="You are locator.",
        llm_config=OpenAiConfig(name="scripted", model_id="scripted"),
        tools=[
            ClientTool(
                name="where",
                description="Ask the caller where they are.",
                outputs=[StringProperty(title="place")],
            )
        ],
    )
)
