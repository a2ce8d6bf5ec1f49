"""Groups built with pyagentspec, their scripted models, and what came of running them by value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pyagentspec.agent import Agent
from pyagentspec.component import Component
from pyagentspec.llms import OpenAiConfig
from pyagentspec.managerworkers import ManagerWorkers
from pyagentspec.property import IntegerProperty, Property, StringProperty
from pyagentspec.swarm import HandoffMode, Swarm
from pyagentspec.tools import ServerTool

from retinue.client import SubagentHandle, SubagentLifecycle, SubagentResult
from retinue.testing import Call, Match, ScriptedRequest, ScriptedServer
from retinue.testing.scripts import Script, TurnCount

WAIT_S = 45.0


def server_tool(name: str, *inputs: Property, **options: Any) -> ServerTool:
    """A tool of the workers, as a document names it."""
    return ServerTool(name=name, description=f"Does {name}.", inputs=list(inputs), **options)


ECHO = server_tool("echo", StringProperty(title="text"))
FAIL = server_tool("fail", StringProperty(title="text"))
ARITHMETIC = {
    name: server_tool(name, IntegerProperty(title="a"), IntegerProperty(title="b"))
    for name in ("fooza", "bwip", "zbuk")
}


def send(recipient: str, message: str) -> Call:
    """A message to another member."""
    return Call("send_message", {"recipient": recipient, "message": message})


def hand_off(recipient: str) -> Call:
    """The conversation, given to another member."""
    return Call("handoff_conversation", {"recipient": recipient})


@dataclass(frozen=True)
class Case:
    """One test's agents: its tag is their model, so that its scripts answer nobody else's.

    Args:
        tag: Unique among the tests that share the server.
        model: The scripted server.
        lifecycle: The test's own session.
    """

    tag: str
    model: ScriptedServer
    lifecycle: SubagentLifecycle
    scripts: dict[str, str] = field(default_factory=dict[str, str])

    def agent(self, name: str, prompt: str = "Do your part.", **options: Any) -> Agent:
        """An agent of this case."""
        options.setdefault("description", f"Is {name}.")
        llm = OpenAiConfig(name="llm", model_id=self.tag)
        return Agent(name=name, llm_config=llm, system_prompt=f"Role: {name}; {prompt}", **options)

    def agents(self, *names: str, **options: Any) -> tuple[Agent, ...]:
        """Several of them, alike."""
        return tuple(self.agent(name, **options) for name in names)

    def says(self, name: str, *, count: TurnCount = TurnCount.TOTAL) -> Script:
        """What the model of that agent answers, turn by turn."""
        match = Match(model=self.tag, system_contains=f"Role: {name};")
        return self.model.script_where(f"{self.tag}:{name}", match, count=count)

    def asked(self, name: str) -> list[ScriptedRequest]:
        """The requests that the model of that agent got."""
        records = self.model.requests(f"{self.tag}:{name}")
        assert [record.problem for record in records] == [None] * len(records)
        return [record.request for record in records if record.request is not None]

    def launch(self, group: Component, goal: str = "Go", **options: Any) -> SubagentHandle:
        """Starts the group."""
        return self.lifecycle.launch(agent=group, goal=goal, **options)

    def ended(self, handle: SubagentHandle) -> SubagentResult:
        """What came of it, once it has ended."""
        state = self.lifecycle.wait(handle, timeout_seconds=WAIT_S)
        assert state.completed, f"not within {WAIT_S} s: {self.lifecycle.status(handle)}"
        return self.lifecycle.result(handle)

    def run(self, group: Component, goal: str = "Go", **options: Any) -> SubagentResult:
        """Starts the group and waits for its end."""
        return self.ended(self.launch(group, goal, **options))

    def text(self, group: Component, goal: str = "Go", **options: Any) -> str:
        """The answer of a group that does well."""
        result = self.run(group, goal, **options)
        assert result.terminal_state.value == "SUCCEEDED", (result.error_classification, result.error_message)
        assert result.summary is not None
        return result.summary


def swarm(
    first: Component,
    *edges: tuple[Component, Component],
    mode: HandoffMode = HandoffMode.OPTIONAL,
    **options: Any,
) -> Swarm:
    """A swarm of these edges."""
    options.setdefault("name", "swarm")
    return Swarm(first_agent=first, relationships=list(edges), handoff=mode, **options)


def managed(manager: Component, *workers: Component, **options: Any) -> ManagerWorkers:
    """A manager and its workers."""
    options.setdefault("name", "team")
    return ManagerWorkers(group_manager=manager, workers=list(workers), **options)


def results_of(request: ScriptedRequest) -> list[str]:
    """The tool results in a request's history, in its order."""
    return [result.text for result in request.results]


def everything_heard(request: ScriptedRequest) -> str:
    """All tool results of a request's history, as a text."""
    return "; ".join(results_of(request))


def users_of(request: ScriptedRequest) -> list[str]:
    """The user messages in a request's history."""
    return [message.text for message in request.messages if message.role == "user"]
