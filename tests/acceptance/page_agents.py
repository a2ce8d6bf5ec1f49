"""Agents to look at in a browser: a lead with helpers, a clerk that asks, and names that are markup."""

from __future__ import annotations

from typing import Any

from retinue.agents import Agent, AgentConfig, tool

MARKUP = "<img/src=x/onerror=alert(1)>"


@tool(read_only=True)
def look_up(query: str) -> str:
    """Find passages in the handbook."""
    return f"found {query}"


@tool(requires_confirmation=True)
def refund(order: int, note: str = "") -> str:
    """Pay an order back."""
    return f"refunded {order} {note}".strip()


@tool(name=MARKUP, requires_confirmation=True)
def marked(text: Any = None) -> str:
    """Do something under a name that is markup."""
    return f"did {text}"


@tool(name="<b>break</b>")
def broken(text: str = "") -> str:
    """Fail with the text that it is given."""
    raise RuntimeError(text)


_scripted = {"model": "scripted"}
helper = Agent(name="helper", instructions="You are helper.", tools=[look_up], **_scripted)
lead = Agent(name="lead", instructions="You are lead.", sub_agents=[helper], tools=[look_up], **_scripted)
clerk = Agent(
    name="clerk",
    instructions="You are clerk.",
    tools=[refund, look_up],
    config=AgentConfig(ask_user=True),
    **_scripted,
)
desk = Agent(name="desk", instructions="You are desk.", sub_agents=[clerk], **_scripted)
markup = Agent(
    name=MARKUP,
    instructions="You are markup.",
    description="<script>alert(2)</script>",
    tools=[marked, broken],
    config=AgentConfig(ask_user=True),
    **_scripted,
)
