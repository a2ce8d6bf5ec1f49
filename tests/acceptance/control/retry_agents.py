"""Agents whose model fails; `hurried` has a provider of its own name, with limits."""

from __future__ import annotations

from retinue.agents import Agent

hand = Agent(name="hand", instructions="You are hand.", model="scripted")
hurried = Agent(name="hurried", instructions="You are hurried.", model="scripted", provider="hurried")
