"""The last look before a tool runs: what the pinned spec names may have been taken away since."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from retinue.agents import Grant, Registry, tool
from retinue.agents.agentspec.remote_spec import RemoteSpec
from retinue.agents.effective.effective import EffectiveSpec, ToolSpec
from retinue.broker.settings import Settings
from retinue.client.launching.ticket import Ticket
from retinue.contract import Role, SubagentLaunchRequest, new_run_id
from retinue.store.call import RunKey
from retinue.store.record import Record
from retinue.store.replies import Fence, Recorded
from retinue.worker.calls.call_handler import Answered
from retinue.worker.calls.tool_calls import OUTCOME_UNKNOWN, ToolCalls
from retinue.worker.calls.turn import CallKind, TurnCall
from retinue.worker.models import ToolCall
from retinue.worker.network.network_tools import NetworkToolError
from retinue.worker.run.held import HeldRun
from retinue.worker.run.hook_calls import HookCalls

ran: list[str] = []


@tool(toolset="files")
def write(path: str) -> str:
    """Write a file."""
    ran.append(path)
    return "written"


class Store:
    """Keeps what is recorded."""

    def __init__(self) -> None:
        self.results: list[tuple[str, bool]] = []
        self.store = self  # the patient one and the one that it waits for

    async def run(self, call: Any) -> Recorded:
        assert call.script.name == "record_tool_result"
        self.results.append((json.loads(call.argv[8]), call.argv[10] == "true"))
        return Recorded()


class Network:
    """Answers calls of tools that are not here."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, object]] = []

    async def call(self, tool: ToolSpec, arguments: object, *, go_on: object) -> str:
        self.asked.append((tool.name, arguments))
        if tool.name == "refused":
            raise NetworkToolError("h has a private address")
        return "answered"


def elsewhere(name: str, *, method: str = "POST") -> ToolSpec:
    return ToolSpec(
        name=name,
        api_name=name,
        toolset=name,
        description="d",
        parameters={"type": "object", "properties": {"n": {"type": "integer", "default": 2}}},
        read_only=method == "GET",
        kind="remote",
        remote=RemoteSpec(name=name, method=method, url="https://h/"),
    )


def calls_of(
    store: Store,
    *,
    grant: Grant,
    known: bool = True,
    network: Network | None = None,
    tool: ToolSpec | None = None,
) -> ToolCalls:
    key = RunKey("_", new_run_id(3))
    spec = EffectiveSpec(
        agent="clerk",
        max_iterations=5,
        tools=(
            tool
            or ToolSpec(
                name="write",
                api_name="write",
                toolset="files",
                description="Write a file.",
                parameters=dict(write.parameters),
            ),
        ),
    )
    services: Any = SimpleNamespace(
        store=store,
        network=network,
        registry=Registry.from_objects(write) if known else Registry.from_objects(),
        settings=Settings.read(store_url="redis://localhost"),
        hooks=HookCalls((), 1.0),
    )
    run = HeldRun(
        key=key,
        fence=Fence(1, "token"),
        record=Record({"th": key.run_id, "sess": "s"}),
        ticket=Ticket(SubagentLaunchRequest.parse(goal="g"), Role.LEAF),
        spec=spec,
        spec_is_pinned=True,
        grant=grant,
        thread=[],
        journal={},
        iteration=1,
        deadline=None,
    )
    return ToolCalls(services, run)


CALL = TurnCall(0, ToolCall("c1", "write", '{"path": "a.txt"}'), CallKind.OWN_TOOL)


async def test_a_granted_tool_runs() -> None:
    ran.clear()
    store = Store()

    outcome = await calls_of(store, grant=Grant()).start(CALL, lost=False)

    assert outcome == Answered()
    assert (ran, store.results) == (["a.txt"], [("written", True)])


async def test_a_tool_outside_an_ancestors_grant_does_not_run_although_the_spec_names_it() -> None:
    ran.clear()
    for grant in (Grant(toolsets=("mail",)), Grant(toolsets=()), Grant(blocked_tools=("write",))):
        store = Store()
        await calls_of(store, grant=grant).start(CALL, lost=False)
        assert store.results == [("[ERROR] The tool 'write' is not available.", False)]
    assert ran == []


async def test_a_tool_that_the_code_on_this_worker_lacks_is_not_available() -> None:
    store = Store()
    await calls_of(store, grant=Grant(), known=False).start(CALL, lost=False)
    assert store.results == [("[ERROR] The tool 'write' is not available.", False)]


async def test_a_call_that_a_crash_left_open_is_not_run_again() -> None:
    ran.clear()
    store = Store()
    await calls_of(store, grant=Grant()).start(CALL, lost=True)
    assert (ran, store.results) == ([], [(OUTCOME_UNKNOWN, False)])


def asking(name: str, arguments: str = "{}") -> TurnCall:
    return TurnCall(0, ToolCall("c1", name, arguments), CallKind.OWN_TOOL)


async def test_a_tool_that_is_answered_elsewhere_needs_no_function_here() -> None:
    store, network = Store(), Network()
    calls = calls_of(store, grant=Grant(), known=False, network=network, tool=elsewhere("far"))
    await calls.start(asking("far"), lost=False)
    await calls.start(asking("far", '{"n": "x"}'), lost=False)
    assert network.asked == [("far", {"n": 2})]
    assert store.results[0] == ("answered", True)
    assert "'x' is not of type 'integer'" in store.results[1][0]


async def test_what_keeps_it_from_answering_is_the_call_s_result() -> None:
    store = Store()
    calls = calls_of(store, grant=Grant(), network=Network(), tool=elsewhere("refused"))
    await calls.start(asking("refused"), lost=False)
    assert store.results == [("[ERROR] h has a private address", False)]


async def test_an_ancestors_grant_and_a_crash_hold_for_it_as_for_any_tool() -> None:
    store, network = Store(), Network()
    outside = calls_of(store, grant=Grant(toolsets=("mail",)), network=network, tool=elsewhere("far"))
    await outside.start(asking("far"), lost=False)
    posted = calls_of(store, grant=Grant(), network=network, tool=elsewhere("far"))
    await posted.start(asking("far"), lost=True)
    assert network.asked == []
    assert store.results == [("[ERROR] The tool 'far' is not available.", False), (OUTCOME_UNKNOWN, False)]
    read = calls_of(store, grant=Grant(), network=network, tool=elsewhere("far", method="GET"))
    await read.start(asking("far"), lost=True)
    assert store.results[-1] == ("answered", True)
