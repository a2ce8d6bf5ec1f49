"""Agents of one scenario that has it all; their tools write a line each time they run."""

from __future__ import annotations

import time

from pyagentspec.agent import Agent as SpecAgent
from pyagentspec.llms import OpenAiConfig
from pyagentspec.property import StringProperty
from pyagentspec.swarm import HandoffMode, Swarm
from pyagentspec.tools import ServerTool

from retinue.agents import Agent, AgentConfig, RunStopped, ToolContext, load_agent_spec, on_stop, tool


@tool(toolset="desk", idempotent=True)
def look(line: str, ctx: ToolContext) -> str:
    """Look something up; may run again, until it has an answer."""
    ctx.progress(f"looks for {line}")
    _write(ctx, f"look {line}")
    return f"saw {line}"


@tool(toolset="desk")
async def book(line: str, ctx: ToolContext) -> str:
    """Book something; running it twice would show."""
    _write(ctx, f"book {line}")
    return f"booked {line}"


@tool(toolset="desk", requires_confirmation=True)
def pay(line: str, ctx: ToolContext) -> str:
    """Pay, once someone agreed."""
    _write(ctx, f"pay {line}")
    return f"paid {line}"


@on_stop
def tell(stopped: RunStopped) -> None:
    with open("told.txt", "a") as told:
        told.write(f"{stopped.run_id}\n")


def _write(ctx: ToolContext, line: str) -> None:
    with open("ledger.txt", "a") as ledger:
        ledger.write(f"{ctx.idempotency_key} {time.time():.6f} {line}\n")


helper = Agent(name="helper", instructions="You are helper.", model="scripted", tools=[look, book])
slow = Agent(name="slow", instructions="You are slow.", model="scripted")
boss = Agent(
    name="boss",
    instructions="You are boss.",
    model="scripted",
    tools=[look, book, pay],
    sub_agents=[helper, slow],
    config=AgentConfig(background=True),
)
cashier = Agent(name="cashier", instructions="You are cashier.", model="scripted", tools=[pay])

_LOOK, _BOOK = (
    ServerTool(name=name, description=f"Does {name}.", inputs=[StringProperty(title="line")])
    for name in ("look", "book")
)
_FRONT, _EXPERT = (
    SpecAgent(
        name=name,
        description=f"Is {name}.",
        llm_config=OpenAiConfig(name="llm", model_id="scripted"),
        system_prompt=f"You are {name}.",
        tools=[_LOOK, _BOOK],
    )
    for name in ("front", "expert")
)
desk = load_agent_spec(
    Swarm(
        name="desk",
        first_agent=_FRONT,
        relationships=[(_FRONT, _EXPERT), (_EXPERT, _FRONT)],
        handoff=HandoffMode.OPTIONAL,
    )
)
