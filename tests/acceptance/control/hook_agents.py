"""Agents with hooks that write down what they are told, and some that fail."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from pathlib import Path

from pyagentspec.agent import Agent as SpecAgent
from pyagentspec.llms import OpenAiConfig
from pyagentspec.swarm import HandoffMode, Swarm

from retinue.agents import (
    Agent,
    RunDelegated,
    RunHandedOff,
    RunMoment,
    RunStarted,
    RunStopped,
    ToolUsed,
    load_agent_spec,
    on_delegate,
    on_handoff,
    on_start,
    on_stop,
    on_tool,
    tool,
)


@tool(toolset="work", read_only=True)
def work(name: str) -> str:
    """Work until a file is there."""
    Path(f"{name}.started").touch()
    while not Path(f"{name}.go").exists():
        time.sleep(0.01)
    return f"{name} is done"


def _write(moment: RunMoment, kind: str, **what: object) -> None:
    line = {
        "hook": kind,
        "run": moment.run_id,
        "parent": moment.parent_id,
        "agent": moment.agent,
        "metadata": dict(moment.metadata),
        "pid": os.getpid(),
        **what,
    }
    with open("hooks.txt", "a") as told:
        told.write(json.dumps(line) + "\n")


@on_start
def started(moment: RunStarted) -> None:
    _write(moment, "start", attempt=moment.attempt)


@on_tool
async def used(moment: ToolUsed) -> None:
    _write(moment, "tool", tool=moment.tool, ok=moment.ok, took=moment.duration_seconds >= 0)


@on_delegate
async def delegated(moment: RunDelegated) -> None:
    _write(moment, "delegate", child=moment.child_id, to=moment.child_agent)


@on_handoff
async def handed_off(moment: RunHandedOff) -> None:
    _write(moment, "handoff", to=moment.recipient)


@on_stop
async def fails(moment: RunStopped) -> None:
    raise ValueError(f"secret of {moment.run_id}")


@on_stop
async def hangs(moment: RunStopped) -> None:
    if moment.metadata.get("hang"):
        await asyncio.sleep(60)


@on_stop
def stopped(moment: RunStopped) -> None:
    if moment.metadata.get("die") and not Path("died.txt").exists():
        Path("died.txt").write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)
    cls, usage = moment.classification, moment.usage
    _write(
        moment,
        "stop",
        state=str(moment.state),
        cls=cls and str(cls),
        calls=usage and usage.model_calls,
        tools=usage and dict(usage.tools),
        never_started=moment.started_at is None,
    )


hand = Agent(name="hand", instructions="You are hand.", model="scripted", tools=[work])
boss = Agent(name="boss", instructions="You are boss.", model="scripted", sub_agents=[hand])


def _member(name: str) -> SpecAgent:
    llm = OpenAiConfig(name="llm", model_id="scripted")
    return SpecAgent(name=name, description=name, llm_config=llm, system_prompt=f"You are {name}.")


_front, _expert = _member("front"), _member("expert")
desk = load_agent_spec(
    Swarm(name="desk", first_agent=_front, relationships=[(_front, _expert)], handoff=HandoffMode.ALWAYS)
)
