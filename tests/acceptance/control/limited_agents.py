"""Agents of providers with limits, one each, named after what limits them; `free` has a provider without."""

from __future__ import annotations

from retinue.agents import Agent, AgentConfig


def _of(name: str, provider: str, *, queue: str | None = None) -> Agent:
    config = AgentConfig(queue=queue, max_tokens=200)
    return Agent(
        name=name, instructions=f"You are {name}.", model="scripted", provider=provider, config=config
    )


narrow = _of("narrow", "narrow")
metered = _of("metered", "metered")
counted = _of("counted", "counted")
moody = _of("moody", "moody")
frail = _of("frail", "frail")
single = _of("single", "single")
elsewhere = _of("elsewhere", "single", queue="elsewhere")
free = _of("free", "free")
hasty = _of("hasty", "free")
