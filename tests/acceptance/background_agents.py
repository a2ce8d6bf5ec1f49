"""A boss that may let its clerks work in the background, and one that may not."""

from __future__ import annotations

from retinue.agents import Agent, AgentConfig

clerk = Agent(name="clerk", instructions="You are clerk.", model="m")
slow = Agent(name="slow", instructions="You are slow.", model="m")
boss = Agent(
    name="boss",
    instructions="You are boss.",
    model="m",
    sub_agents=[clerk, slow],
    config=AgentConfig(background=True),
)
plain = Agent(name="plain", instructions="You are plain.", model="m", sub_agents=[clerk])
