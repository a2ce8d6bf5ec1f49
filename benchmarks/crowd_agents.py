"""A run that launches thousands, which nobody is there to run."""

from __future__ import annotations

from retinue.agents import Agent, AgentConfig, ToolContext, tool

AT_A_TIME = 100


@tool(toolset="crowd")
def fill(count: int, ctx: ToolContext) -> str:
    """Launch so many."""
    lifecycle = ctx.subagent_lifecycle
    for first in range(0, count, AT_A_TIME):
        few = min(AT_A_TIME, count - first)
        lifecycle.launch_many([{"agent": "idle", "goal": "wait"} for _ in range(few)])  # pyright: ignore[reportAttributeAccessIssue]
    return "launched"


idle = Agent(
    name="idle", instructions="You are idle.", model="scripted", config=AgentConfig(queue="unserved")
)
crowd = Agent(name="crowd", instructions="You are crowd.", model="scripted", tools=[fill], sub_agents=[idle])
