"""A leaf, a boss that may let leaves work in the background, and the tools of agents that come by value."""

from __future__ import annotations

from retinue.agents import Agent, AgentConfig, tool

leaf = Agent(name="leaf", instructions="You are leaf.", model="scripted")
boss = Agent(
    name="boss",
    instructions="You are boss.",
    model="scripted",
    sub_agents=[leaf],
    config=AgentConfig(background=True),
)


@tool
def echo(text: str) -> str:
    """Say it again."""
    return text
