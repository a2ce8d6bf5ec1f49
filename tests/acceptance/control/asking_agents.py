"""Agents that ask: the user, or whoever started them; beside what they count and what needs an approval."""

from __future__ import annotations

from retinue.agents import Agent, AgentConfig, ToolContext, tool


@tool
def count(ctx: ToolContext) -> str:
    """Count one up."""
    _write(ctx, "count")
    return "counted"


@tool(requires_confirmation=True, redact=["pin"])
def open_safe(shelf: int, pin: str, ctx: ToolContext) -> str:
    """Open a safe."""
    _write(ctx, f"open_safe {shelf}")
    return f"open {len(pin)}"


def _write(ctx: ToolContext, line: str) -> None:
    with open("ledger.txt", "a") as ledger:
        ledger.write(f"{ctx.idempotency_key} {line}\n")


clerk = Agent(
    name="clerk",
    instructions="You are clerk.",
    model="scripted",
    tools=[count, open_safe],
    config=AgentConfig(ask_user=True, ask_parent=True),
)
mute = Agent(name="mute", instructions="You are mute.", model="scripted")
boss = Agent(name="boss", instructions="You are boss.", model="scripted", sub_agents=[clerk])
chief = Agent(name="chief", instructions="You are chief.", model="scripted", sub_agents=[boss])
lead = Agent(
    name="lead",
    instructions="You are lead.",
    model="scripted",
    sub_agents=[clerk],
    tools=[count],
    config=AgentConfig(background=True),
)
