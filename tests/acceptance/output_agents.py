"""Agents that owe an object, and objects that are agents, for the tests of structured results and runners."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from pydantic import BaseModel, Field

from retinue.agents import Agent, AgentConfig, SubAgent, ToolContext, tool


class Report(BaseModel):
    """What the reporter owes."""

    title: str
    score: int = Field(ge=0, le=10)
    source: str = "unknown"


@tool(toolset="ledger")
def append(line: str, ctx: ToolContext) -> str:
    """Append a line to the ledger."""
    with open("ledger.txt", "a") as ledger:
        ledger.write(f"{ctx.idempotency_key} {line}\n")
    return f"wrote {line}"


@dataclass
class Score:
    title: str
    score: int


ANSWERS: dict[str, object] = {
    "text": "a text",
    "dict": {"title": "t", "score": 3},
    "final_response": SimpleNamespace(final_response="a response", other=1),
    "output": SimpleNamespace(output={"title": "t", "score": 3}),
    "final_output": SimpleNamespace(final_output=Report(title="t", score=3)),
    "dataclass": Score("t", 3),
    "pydantic": Report(title="t", score=3),
    "json": '{"title": "t", "score": 3}',
    "unfit": {"title": "t", "score": "many"},
    "nothing": None,
    "blank": " \n",
    "no object": {},
    "empty response": SimpleNamespace(final_response=""),
    "unreadable": SimpleNamespace(answer="x"),
}


class Everything:
    """Answers whatever the task names."""

    async def run(self, query: str) -> object:
        return ANSWERS[query]


class ByPosition:
    """Calls its task otherwise, and says what else it was given."""

    def run(self, task: str, /, **extras: object) -> dict[str, object]:
        return {"task": task, "given": sorted(extras)}


class Patient:
    """Notes that it was begun, and goes on only once a file is there."""

    def run(self, query: str) -> str:
        with open(f"{query}.begun", "a") as begun:
            begun.write("begun\n")
        while not Path(f"{query}.open").exists():
            time.sleep(0.02)
        return f"{query} is done"


class Delegating:
    """Launches a child by hand, and waits for it in place."""

    async def run(self, query: str) -> str:
        from retinue.client import AsyncSubagentLifecycle

        lifecycle = AsyncSubagentLifecycle()
        handle = await lifecycle.launch(agent="plain", goal=query)
        await lifecycle.wait(handle, timeout_seconds=60)
        return f"heard {(await lifecycle.result(handle)).summary}"


plain = Agent(name="plain", instructions="You are plain.", model="scripted", tools=[append])
reporter = Agent(
    name="reporter", instructions="You are reporter.", model="scripted", tools=[append], output_schema=Report
)
hurried = Agent(
    name="hurried",
    instructions="You are hurried.",
    model="scripted",
    tools=[append],
    output_schema=Report,
    config=AgentConfig(max_tool_calls=1),
)
editor = Agent(
    name="editor",
    instructions="You are editor.",
    model="scripted",
    sub_agents=[reporter],
    output_schema=Report,
)
reader = Agent(name="reader", instructions="You are reader.", model="scripted", sub_agents=[reporter, plain])
everything = SubAgent(name="everything", agent=Everything(), description="Answers.")
by_position = SubAgent(name="by_position", agent=ByPosition(), description="Answers.")
patient = SubAgent(name="patient", agent=Patient(), description="Waits.")
steady = SubAgent(name="steady", agent=Patient(), description="Waits, and may start anew.", restartable=True)
delegating = SubAgent(name="delegating", agent=Delegating(), description="Delegates.")
