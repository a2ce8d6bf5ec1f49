"""The agents of the page's screenshots: a support desk, a code review and a weekly briefing."""

from __future__ import annotations

import asyncio

from retinue.agents import Agent, tool


@tool(read_only=True)
def search_handbook(query: str) -> str:
    """Find passages in the handbook."""
    return "Opened headphones may be returned within 14 days if the seal of the hygiene bag is whole."


@tool(read_only=True)
def read_order(order: int) -> str:
    """Read an order."""
    return f"Order {order}: headphones, 89.90 EUR, delivered 6 days ago, hygiene seal whole."


@tool(requires_confirmation=True)
def refund(order: int, amount_eur: float, reason: str) -> str:
    """Pay an order back."""
    return "refunded"


@tool(read_only=True)
async def outline_module(path: str) -> str:
    """List the classes and functions of a module."""
    await asyncio.sleep(3_600)
    return "never"


_model = {"model": "gpt-5-mini"}
researcher = Agent(name="researcher", instructions="You are researcher.", tools=[search_handbook], **_model)
refund_clerk = Agent(
    name="refund-clerk", instructions="You are refund-clerk.", tools=[read_order, refund], **_model
)
support = Agent(
    name="support", instructions="You are support.", sub_agents=[researcher, refund_clerk], **_model
)
surveyor = Agent(name="surveyor", instructions="You are surveyor.", **_model)
code_reader = Agent(name="code-reader", instructions="You are code-reader.", tools=[outline_module], **_model)
review_lead = Agent(
    name="review-lead", instructions="You are review-lead.", sub_agents=[surveyor, code_reader], **_model
)
briefing = Agent(name="briefing", instructions="You are briefing.", sub_agents=[researcher], **_model)
translator = Agent(name="translator", instructions="You are translator.", **_model)
