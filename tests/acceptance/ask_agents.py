"""Agents whose calls wait for a human: tools that need an approval, and one that the caller answers."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pyagentspec.agent import Agent as SpecAgent
from pyagentspec.llms import OpenAiConfig
from pyagentspec.property import StringProperty
from pyagentspec.tools import ClientTool

from retinue.agents import Agent, AgentConfig, ToolContext, tool

HANGS_S = 60.0


@tool(requires_confirmation=True)
def refund(order: int, ctx: ToolContext) -> str:
    """Pay an order back."""
    _write(ctx, f"refund {order}")
    return f"refunded {order}"


@tool(requires_confirmation=True)
async def pay(name: str, ctx: ToolContext) -> str:
    """Pay, and take long over it."""
    _write(ctx, f"pay {name}")
    _starts_first(name)
    await asyncio.sleep(HANGS_S)
    return "never"


@tool(requires_confirmation=True, idempotent=True)
async def pay_once(name: str, ctx: ToolContext) -> str:
    """Pay, and take long over it the first time."""
    _write(ctx, f"pay_once {name}")
    if _starts_first(name):
        await asyncio.sleep(HANGS_S)
    return "paid"


@tool
def count(ctx: ToolContext) -> str:
    """Count one up."""
    _write(ctx, "count")
    return "counted"


def _starts_first(name: str) -> bool:
    started = Path(f"{name}.started")
    is_first = not started.exists()
    started.touch()
    return is_first


def _write(ctx: ToolContext, line: str) -> None:
    with open("ledger.txt", "a") as ledger:
        ledger.write(f"{ctx.idempotency_key} {line}\n")


clerk = Agent(
    name="clerk", instructions="You are clerk.", model="scripted", tools=[refund, pay, pay_once, count]
)
boss = Agent(name="boss", instructions="You are boss.", model="scripted", sub_agents=[clerk])
chief = Agent(
    name="chief",
    instructions="You are chief.",
    model="scripted",
    sub_agents=[boss],
    tools=[count],
    config=AgentConfig(max_iterations=5),
)
locator = SpecAgent(
    name="locator",
    description="Knows where the caller is.",
    system_prompt="You are locator.",
    llm_config=OpenAiConfig(name="scripted", model_id="scripted"),
    tools=[
        ClientTool(
            name="where are you",
            description="Ask the caller where they are.",
            inputs=[StringProperty(title="unit")],
            outputs=[StringProperty(title="place")],
        )
    ],
)
