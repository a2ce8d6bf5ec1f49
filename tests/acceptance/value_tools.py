"""A worker without any agent: it has tools, and runs what is sent to it."""

from __future__ import annotations

from retinue.agents import ToolContext, tool


@tool(toolset="prices", read_only=True)
def look_up_price(article: str) -> float:
    """The price of an article in euros."""
    return {"lamp": 19.5}.get(article, 0.0)


@tool(toolset="ledger")
def note_down(line: str) -> str:
    """Write a line into the ledger."""
    return f"noted {line}"


@tool(toolset="launching")
def launch_other(agent: str, goal: str, ctx: ToolContext) -> str:
    """Launch an agent by its name and wait for its answer."""
    lifecycle = ctx.subagent_lifecycle
    handle = lifecycle.launch(agent=agent, goal=goal)
    lifecycle.wait(handle, timeout_seconds=30)
    return str(lifecycle.result(handle).summary)
