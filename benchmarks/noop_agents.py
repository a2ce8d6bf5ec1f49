"""Agents that do nothing, so that what is measured is Retinue and not the work."""

from __future__ import annotations

import asyncio

from retinue.agents import Agent, SubAgent, tool


class Nothing:
    """Answers at once."""

    async def run(self, query: str) -> str:
        return query


class Sleeper:
    """Stays in flight until it is cancelled."""

    async def run(self, query: str) -> str:
        await asyncio.sleep(3600)
        return query


@tool(read_only=True)
def look(query: str) -> str:
    """Look something up."""
    return query


noop = SubAgent(name="noop", agent=Nothing(), description="Does nothing.")
sleeper = SubAgent(name="sleeper", agent=Sleeper(), description="Sleeps.")
looper = Agent(
    name="looper", instructions="You are looper.", tools=[look], model="scripted", description="Looks."
)
