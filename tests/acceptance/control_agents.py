"""Agents for tests of steering, cancelling, deadlines and model faults; the scripts say what each does."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from retinue.agents import Agent, AgentConfig, SubAgent, ToolContext, tool


@tool(toolset="ledger")
def append(line: str, ctx: ToolContext) -> str:
    """Append a line to the ledger."""
    with open("ledger.txt", "a") as ledger:
        ledger.write(f"{ctx.idempotency_key} {line}\n")
    return f"wrote {line}"


@tool(toolset="family")
def send_out(task: str, ctx: ToolContext) -> str:
    """Launch a hand, leave its handle in a file, and wait for it."""
    lifecycle = ctx.subagent_lifecycle
    handle = lifecycle.launch(agent="hand", goal=task)
    draft = Path(f"{task}.draft")
    draft.write_text(json.dumps(handle.to_dict()))
    draft.rename(f"{task}.handle")
    ended = lifecycle.wait(handle, timeout_seconds=60)
    return f"the hand ended {ended.state}"


class Sleeper:
    """Knows only how to run, until it is cancelled."""

    async def run(self, query: str) -> str:
        _touch(f"{query}.started")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            _touch(f"{query}.cancelled")
            raise
        return "slept"


def _touch(name: str) -> None:
    Path(name).touch()


hand = Agent(name="hand", instructions="You are hand.", model="scripted", tools=[append])
clerk = Agent(
    name="clerk",
    instructions="You are clerk.",
    model="scripted",
    tools=[append],
    config=AgentConfig(max_iterations=2),
)
boss = Agent(
    name="boss",
    instructions="You are boss.",
    model="scripted",
    tools=[append, send_out],
    sub_agents=[hand, clerk],
)
faraway = Agent(
    name="faraway", instructions="You are faraway.", model="scripted", config=AgentConfig(queue="unserved")
)
sleeper = SubAgent(name="sleeper", agent=Sleeper(), description="Sleeps.")
