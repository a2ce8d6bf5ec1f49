"""Agents of four levels, each of which delegates to twenty of the next; and one alone."""

from __future__ import annotations

from retinue.agents import Agent

level3 = Agent(name="level3", instructions="You are level3.", model="scripted")
level2 = Agent(name="level2", instructions="You are level2.", model="scripted", sub_agents=[level3])
level1 = Agent(name="level1", instructions="You are level1.", model="scripted", sub_agents=[level2])
level0 = Agent(name="level0", instructions="You are level0.", model="scripted", sub_agents=[level1])
