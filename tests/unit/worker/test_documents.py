"""Documents that came with launches: each is loaded once, and found with the launch that brought it."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from retinue.agents import Agent, AgentSpecError, Registry, tool
from retinue.client.launching.ticket import Ticket
from retinue.contract import Role, SubagentLaunchRequest, document_digest, new_run_id
from retinue.store.call import RunKey
from retinue.worker import documents as worker_documents
from retinue.worker.documents import LaunchedDocuments

pytest.importorskip("pyagentspec")

RUN, HOLDER = new_run_id(7), new_run_id(7)
KEY = RunKey("_", RUN)


@tool(toolset="sums")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def document(name: str = "desk", *tools: str) -> dict[str, Any]:
    wanted = [
        {
            "component_type": "ServerTool",
            "id": f"t-{each}",
            "name": each,
            "description": "d",
            "inputs": [{"title": "a", "type": "integer"}, {"title": "b", "type": "integer"}],
        }
        for each in tools
    ]
    return {
        "agentspec_version": "25.4.1",
        "component_type": "Agent",
        "id": name,
        "name": name,
        "system_prompt": "p",
        "llm_config": {
            "component_type": "OpenAiCompatibleConfig",
            "id": "l",
            "name": "l",
            "model_id": "m",
            "url": "http://h/v1",
        },
        "tools": wanted,
    }


def ticket(spec: dict[str, Any] | None, holder: str | None = None) -> Ticket:
    return Ticket(SubagentLaunchRequest(goal="g", agent_spec=spec), Role.LEAF, document=holder)


class Kept:
    """A store that keeps launches."""

    def __init__(self, launches: dict[str, str] | None = None) -> None:
        self.reads = 0
        self._launches = launches or {}

    async def run(self, call: Any) -> Any:
        self.reads += 1
        run_id = call.command[1].rpartition(":run:")[2].removesuffix(":req")
        return call.parse(self._launches.get(run_id))


def documents(store: Kept | None = None) -> LaunchedDocuments:
    registered = Agent(name="desk", instructions="Registered.", tools=[add])
    base = Registry.from_objects(registered, Agent(name="other", instructions="o"))
    return LaunchedDocuments(store or Kept(), base)  # pyright: ignore[reportArgumentType]


async def test_a_documents_agents_stand_before_registered_ones_and_use_their_tools() -> None:
    spec = document("desk", "add")

    found = await documents().registry(KEY, ticket(spec), document_digest(spec))

    assert found.document_members == ("desk",)
    assert found.agents["desk"].prompt.startswith("p")
    assert [item.toolset for item in found.agents["desk"].tools] == ["sums"]
    llm = found.agents["desk"].llm
    assert llm is not None
    assert llm.by_value
    assert found.agents["other"].prompt == "o"


async def test_a_child_finds_it_with_the_run_that_brought_it_and_reads_it_once() -> None:
    spec = document()
    store = Kept({HOLDER: json.dumps({"request": {"goal": "g", "agent_spec": spec}})})
    loads, digest = documents(store), document_digest(spec)

    found = await asyncio.gather(*(loads.registry(KEY, ticket(None, HOLDER), digest) for _ in range(5)))

    assert all(each is found[0] for each in found)
    assert store.reads == 1


@pytest.mark.parametrize("kept", [{}, {HOLDER: json.dumps({"request": {"agent_spec": document("another")}})}])
async def test_one_that_is_gone_or_another_is_an_error_and_is_looked_for_again(kept: dict[str, str]) -> None:
    spec = document()
    store = Kept(kept)
    loads = documents(store)

    for _ in range(2):
        with pytest.raises(AgentSpecError, match="not there any more"):
            await loads.registry(KEY, ticket(None, HOLDER), document_digest(spec))
    assert store.reads == 2


async def test_tools_that_are_missing_are_all_listed() -> None:
    spec = document("desk", "add", "burn", "bury")

    with pytest.raises(AgentSpecError) as caught:
        await documents().registry(KEY, ticket(spec), document_digest(spec))

    assert "'burn'" in str(caught.value)
    assert "'bury'" in str(caught.value)


async def test_a_document_is_loaded_off_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    load = worker_documents.load_by_value

    def noting(given: Any) -> Any:
        threads.append(threading.get_ident())
        return load(given)

    monkeypatch.setattr(worker_documents, "load_by_value", noting)
    spec = document()
    await documents().registry(KEY, ticket(spec), document_digest(spec))

    assert threads
    assert threading.get_ident() not in threads, "the first load imports pyagentspec, which takes seconds"
