"""Agents for the tests of Flower. What must not be seen there bears a mark: CANARY."""

from __future__ import annotations

from retinue.agents import Agent, SubAgent, SubAgentSpec, tool


@tool(toolset="handbook", read_only=True)
def search_handbook(query: str) -> str:
    """Find passages in the handbook."""
    return f"CANARY-RESULT of {query}"


class Crashing:
    """Fails with a message that quotes what it was asked."""

    def run(self, query: str) -> str:
        raise ValueError(f"CANARY-ERROR: {query}")


researcher = SubAgentSpec(name="researcher", description="Researches.", tools=[search_handbook])
sleeper = SubAgentSpec(name="sleeper", description="Takes its time.")
crashing = SubAgent(name="crashing", agent=Crashing(), description="Crashes.")
support = Agent(
    name="support",
    instructions="You are support. CANARY-INSTRUCTIONS: be kind.",
    model="gpt-5-mini",
    sub_agents=[researcher],
)
waiter = Agent(name="waiter", instructions="You are waiter. Wait.", model="gpt-5-mini", sub_agents=[sleeper])
