"""Agents for tests of steering, interrupts and parents' ends; the scripts say what each does."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from retinue.agents import Agent, AgentConfig, SubAgent, ToolContext, tool


@tool(toolset="work")
async def take_time(name: str, ctx: ToolContext) -> str:
    """Work until a file is there; say whether the run was told to stop meanwhile."""
    _touch(f"{name}.started")
    told = False
    while not _is_there(f"{name}.go"):
        told = told or ctx.cancelled
        await asyncio.sleep(0.01)
    return "was told to stop" if told else "took its time"


@tool(toolset="work")
def send_out(task: str, on_parent_end: str, ctx: ToolContext) -> str:
    """Launch a hand, leave its handle in a file, and wait for nobody."""
    handle = ctx.subagent_lifecycle.launch(agent="hand", goal=task, on_parent_end=on_parent_end)
    draft = Path(f"{task}.draft")
    draft.write_text(json.dumps(handle.to_dict()))
    draft.rename(f"{task}.handle")
    return "it is at work"


class Sleeper:
    """Knows only how to run, until it is cancelled."""

    async def run(self, query: str) -> str:
        _touch(f"{query}.started")
        await asyncio.sleep(60)
        return "slept"


def _touch(name: str) -> None:
    Path(name).touch()


def _is_there(name: str) -> bool:
    return Path(name).exists()


hand = Agent(name="hand", instructions="You are hand.", model="scripted", tools=[take_time])
boss = Agent(
    name="boss",
    instructions="You are boss.",
    model="scripted",
    tools=[take_time, send_out],
    sub_agents=[hand],
)
chief = Agent(name="chief", instructions="You are chief.", model="scripted", sub_agents=[boss])
faraway = Agent(
    name="faraway", instructions="You are faraway.", model="scripted", config=AgentConfig(queue="unserved")
)
sleeper = SubAgent(name="sleeper", agent=Sleeper(), description="Sleeps.")
