"""The last look before a tool runs: what the pinned spec names may have been taken away since."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from retinue.agents import Grant, Registry, tool
from retinue.agents.effective import EffectiveSpec, ToolSpec
from retinue.broker.settings import Settings
from retinue.client.ticket import Ticket
from retinue.contract import Role, SubagentLaunchRequest, new_run_id
from retinue.store.call import RunKey
from retinue.store.record import Record
from retinue.store.replies import Fence, Recorded
from retinue.worker.held import HeldRun
from retinue.worker.models import ToolCall
from retinue.worker.tool_calls import OUTCOME_UNKNOWN, ToolCalls

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


def calls_of(store: Store, *, grant: Grant, known: bool = True) -> ToolCalls:
    key = RunKey("_", new_run_id(3))
    spec = EffectiveSpec(
        agent="clerk",
        max_iterations=5,
        tools=(
            ToolSpec(
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
        registry=Registry.from_objects(write) if known else Registry.from_objects(),
        settings=Settings.read(store_url="redis://localhost"),
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


CALL = ToolCall("c1", "write", '{"path": "a.txt"}')


async def test_a_granted_tool_runs() -> None:
    ran.clear()
    store = Store()

    assert await calls_of(store, grant=Grant()).answer(0, CALL, lost=False)

    assert (ran, store.results) == (["a.txt"], [("written", True)])


async def test_a_tool_outside_an_ancestors_grant_does_not_run_although_the_spec_names_it() -> None:
    ran.clear()
    for grant in (Grant(toolsets=("mail",)), Grant(toolsets=()), Grant(blocked_tools=("write",))):
        store = Store()
        await calls_of(store, grant=grant).answer(0, CALL, lost=False)
        assert store.results == [("[ERROR] The tool 'write' is not available.", False)]
    assert ran == []


async def test_a_tool_that_the_code_on_this_worker_lacks_is_not_available() -> None:
    store = Store()
    await calls_of(store, grant=Grant(), known=False).answer(0, CALL, lost=False)
    assert store.results == [("[ERROR] The tool 'write' is not available.", False)]


async def test_a_call_that_a_crash_left_open_is_not_run_again() -> None:
    ran.clear()
    store = Store()
    await calls_of(store, grant=Grant()).answer(0, CALL, lost=True)
    assert (ran, store.results) == ([], [(OUTCOME_UNKNOWN, False)])
