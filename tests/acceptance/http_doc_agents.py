"""The agent of docs/http.md."""

from __future__ import annotations

from retinue.agents import Agent, tool


@tool(read_only=True)
def search_handbook(query: str) -> str:
    """Find passages in the staff handbook."""
    return f"{query}: within 14 days"


@tool(requires_confirmation=True)
def refund(order: int) -> str:
    """Pay an order back."""
    return f"refunded {order}"


support = Agent(
    name="support", instructions="You are support.", model="scripted", tools=[search_handbook, refund]
)
