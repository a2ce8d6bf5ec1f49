"""An agent that says what it was told."""

from __future__ import annotations

from retinue.agents import SubAgent


class Echo:
    async def run(self, query: str) -> str:
        return query


echo = SubAgent(name="echo", agent=Echo(), description="Says what it was told.")
