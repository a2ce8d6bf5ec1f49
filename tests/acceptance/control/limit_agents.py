"""Agents for tests of limits and deadlines; the scripts say what each does."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from retinue.agents import Agent, AgentConfig, ToolContext, tool
from retinue.client import SubagentLifecycleError

HANGS_S = 60.0


@tool(toolset="ledger")
def count(ctx: ToolContext) -> str:
    """Count one up."""
    return _write(ctx, "count")


@tool(toolset="ledger", idempotent=True)
async def dawdle(name: str, ctx: ToolContext) -> str:
    """Take long over it the first time."""
    if _starts_first(name):
        await asyncio.sleep(HANGS_S)
    return _write(ctx, "dawdle")


@tool(toolset="ledger", requires_confirmation=True)
def refund(order: int, ctx: ToolContext) -> str:
    """Pay an order back."""
    return _write(ctx, f"refund {order}")


@tool(toolset="family")
def send_out(requests: list[dict[str, Any]], wait: bool, ctx: ToolContext) -> str:
    """Launch runs, leave the handle of the first in a file, and wait for all of them if so told."""
    lifecycle = ctx.subagent_lifecycle
    try:
        handles = lifecycle.launch_many(requests)
    except SubagentLifecycleError as refused:
        return f"{refused.code}: {refused}"
    draft = Path(f"{ctx.run_id}.draft")
    draft.write_text(json.dumps(handles[0].to_dict()))
    draft.rename(f"{ctx.run_id}.child")
    if not wait:
        return "sent"
    lifecycle.wait_all(handles, timeout_seconds=60)
    return " + ".join(str(result.summary) for result in lifecycle.results(handles))


def _starts_first(name: str) -> bool:
    started = Path(f"{name}.started")
    is_first = not started.exists()
    started.touch()
    return is_first


def _write(ctx: ToolContext, line: str) -> str:
    with open("ledger.txt", "a") as ledger:
        ledger.write(f"{ctx.idempotency_key} {line}\n")
    return line


TOOLS = [count, dawdle, refund, send_out]
clerk = Agent(name="clerk", instructions="You are clerk.", model="scripted", tools=TOOLS)
boss = Agent(name="boss", instructions="You are boss.", model="scripted", tools=TOOLS, sub_agents=[clerk])
chief = Agent(
    name="chief",
    instructions="You are chief.",
    model="scripted",
    tools=TOOLS,
    sub_agents=[boss, clerk],
    config=AgentConfig(background=True),
)
frugal = Agent(
    name="frugal",
    instructions="You are frugal.",
    model="scripted",
    tools=TOOLS,
    sub_agents=[clerk],
    config=AgentConfig(max_tool_calls=3, max_iterations=6),
)
