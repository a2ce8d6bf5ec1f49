"""What goes on now, and what was said, over a store without a real worker."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from tests.integration.client.store_worker import PROCESS
from tests.integration.http.access_stage import AccessStage, access_stage

from retinue.client.reading.live_runs import read_live
from retinue.contract import Budget, SubagentState
from retinue.http.schemas.live import LiveAnswer
from retinue.http.schemas.messages import MessagesAnswer
from retinue.store import keys
from retinue.store.operations.budgets import Reservation
from retinue.testing.servers import PrivateServer


@pytest.fixture
async def stage(valkey_server: PrivateServer) -> AsyncIterator[AccessStage]:
    valkey_server.flush()
    async with access_stage(valkey_server.url) as made:
        yield made


@pytest.fixture
def http(stage: AccessStage) -> httpx2.AsyncClient:
    """With a key of all scopes."""
    return stage.http(stage.issue().text)


async def live(http: httpx2.AsyncClient) -> dict[str, Any]:
    answer = await http.get("/v1/live")
    assert answer.status_code == 200, answer.text
    LiveAnswer.model_validate(answer.json())
    return answer.json()


async def test_live_runs_are_told_with_worker_queue_and_use(
    stage: AccessStage, http: httpx2.AsyncClient
) -> None:
    assert await live(http) == {"runs": [], "left_out": 0}
    ended, held, waiting = [await stage.run(session=f"s{number}") for number in range(3)]
    await stage.run(tenant="other")
    stage.worker.complete(ended)
    fence = stage.worker.claim(held)
    stage.worker.record(held, fence, stage.worker.boundary(held, fence))
    entry = {"agents": ["support"], "name": "w1@alpha", "host": "alpha", "pid": 7}
    stage.worker.link.execute("HSET", keys.WORKERS, PROCESS, json.dumps(entry))

    found = await live(http)

    assert found["left_out"] == 0
    shown = {run["run_id"]: run for run in found["runs"]}
    assert set(shown) == {held.subagent_id, waiting.subagent_id}
    one = shown[held.subagent_id]
    assert (one["state"], one["phase"], one["worker"], one["queue"]) == (
        "RUNNING",
        "model_call",
        "w1@alpha",
        "retinue",
    )
    assert (one["iteration"], one["input_tokens"], one["output_tokens"], one["usd"]) == (1, 5, 3, 0.0002)
    assert (one["session_id"], one["root_id"], one["parent_id"], one["path"]) == (
        "s1",
        held.subagent_id,
        None,
        "0/",
    )
    assert shown[waiting.subagent_id]["worker"] is None
    assert shown[waiting.subagent_id]["state"] == "PENDING"


async def test_a_run_under_a_cancel_says_so(stage: AccessStage, http: httpx2.AsyncClient) -> None:
    run = await stage.run()
    stage.worker.claim(run)
    await stage.service.operator("_").cancel(run)
    [shown] = (await live(http))["runs"]
    assert shown["state"] == SubagentState.CANCEL_REQUESTED


async def test_a_run_that_waits_for_a_raise_stands_in_no_queue_and_is_told(
    stage: AccessStage, http: httpx2.AsyncClient
) -> None:
    lifecycle = stage.service.lifecycle("_", "customer-42")
    run = await lifecycle.launch(agent="support", goal="Help.", budget=Budget(tokens=1))
    stage.worker.pause(run, Reservation(10, 10, 10, 0))
    [shown] = (await live(http))["runs"]
    assert (shown["run_id"], shown["phase"]) == (run.subagent_id, "paused_budget")


async def test_a_thousand_live_runs_take_few_round_trips_and_what_is_too_much_is_counted(
    stage: AccessStage, http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    lifecycle = stage.service.lifecycle("_", "crowd")
    for _ in range(10):
        await lifecycle.launch_many([{"agent": "support", "goal": "Help."}] * 100)
    connections = stage.service.connections()
    trips = 0
    pipeline = connections.link.pipeline

    async def counted(commands: Any) -> Any:
        nonlocal trips
        trips += 1
        return await pipeline(commands)

    monkeypatch.setattr(connections.link, "pipeline", counted)
    found = await read_live(connections, "_")
    assert (len(found.runs), found.left_out) == (1000, 0)
    assert trips <= 8

    some = await read_live(connections, "_", most=30)
    assert (len(some.runs), some.left_out) == (30, 970)
    moments = [run.created_at for run in some.runs]
    assert moments == sorted(moments, reverse=True)
    assert moments[-1] >= sorted((run.created_at for run in found.runs), reverse=True)[29]


async def said(http: httpx2.AsyncClient, run_id: str, **query: Any) -> dict[str, Any]:
    answer = await http.get(f"/v1/runs/{run_id}/messages", params=query)
    assert answer.status_code == 200, answer.text
    MessagesAnswer.model_validate(answer.json())
    return answer.json()


async def test_messages_are_paged_from_the_newest_back(stage: AccessStage, http: httpx2.AsyncClient) -> None:
    run = await stage.run()
    fence = stage.worker.claim(run)
    passed = stage.worker.boundary(run, fence)
    stage.worker.record(run, fence, passed)
    thread = keys.thread("_", run.subagent_id, run.subagent_id)
    for number in range(4):
        stage.worker.link.execute("RPUSH", thread, json.dumps({"role": "user", "content": f"and {number}?"}))

    newest = await said(http, run.subagent_id, limit=4)
    older = await said(http, run.subagent_id, limit=4, cursor=newest["next_cursor"])

    assert [message["text"] for message in newest["messages"]] == [f"and {number}?" for number in range(4)]
    assert [message["role"] for message in older["messages"]] == ["user", "assistant"]
    assert older["messages"][1]["agent"] == "support"
    assert "Help." in older["messages"][0]["text"]
    assert older["next_cursor"] is None
    refused = await http.get(f"/v1/runs/{run.subagent_id}/messages", params={"cursor": "WzAsMF0"})
    assert (refused.status_code, refused.json()["field"]) == (422, "cursor")


async def test_messages_of_another_tenants_run_are_not_there(stage: AccessStage) -> None:
    run = await stage.run()
    foreign = stage.http(stage.issue("other").text)
    assert (await foreign.get(f"/v1/runs/{run.subagent_id}/messages")).status_code == 404
    assert (await live(foreign))["runs"] == []
