"""Agents whose tools stand in three toolsets, for tests of what a launch grants."""

from __future__ import annotations

from retinue.agents import Agent, ToolContext, tool
from retinue.client import SubagentLifecycleError


@tool(toolset="reading", read_only=True)
def look() -> str:
    """Look."""
    return "seen"


@tool(toolset="writing")
def scribble(ctx: ToolContext) -> str:
    """Write something; whoever ran it stands in the ledger."""
    return _write(ctx, "scribble")


@tool(toolset="ruling")
def wipe(ctx: ToolContext) -> str:
    """Blocked by the settings of every worker."""
    return _write(ctx, "wipe")


@tool(toolset="family")
def send_out(agent: str, toolsets: list[str] | None, ctx: ToolContext) -> str:
    """Launch an agent with these toolsets, and wait for it."""
    lifecycle = ctx.subagent_lifecycle
    try:
        handle = lifecycle.launch(agent=agent, goal="sent out", allowed_toolsets=toolsets)
    except SubagentLifecycleError as refused:
        return f"{refused.code}: {refused}"
    lifecycle.wait(handle, timeout_seconds=60)
    return f"{handle.role}: {lifecycle.result(handle).summary}"


def _write(ctx: ToolContext, line: str) -> str:
    with open("ledger.txt", "a") as ledger:
        ledger.write(f"{ctx.idempotency_key} {ctx.agent} {line}\n")
    return "written"


scribe = Agent(
    name="scribe", instructions="You are scribe.", model="scripted", tools=[look, scribble, wipe, send_out]
)
keeper = Agent(
    name="keeper",
    instructions="You are keeper.",
    model="scripted",
    tools=[look, scribble, wipe, send_out],
    sub_agents=[scribe],
)
stranger = Agent(name="stranger", instructions="You are stranger.", model="scripted", tools=[look])
