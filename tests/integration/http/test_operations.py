"""Agents, tool sets, workers, queues, dead letters and usage, over a store without a real worker."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from tests.integration.client.store_worker import PROCESS
from tests.integration.http.access_stage import AccessStage, access_stage

from retinue.http.schemas.operations import (
    AgentsAnswer,
    DeadLetterAnswer,
    DeadLettersAnswer,
    QueuesAnswer,
    SessionUsageAnswer,
    ToolsetsAnswer,
    WorkerAnswer,
    WorkersAnswer,
)
from retinue.store import keys
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


async def read(http: httpx2.AsyncClient, path: str, **query: Any) -> Any:
    answer = await http.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_agents_and_tool_sets_are_listed_page_by_page(
    stage: AccessStage, http: httpx2.AsyncClient
) -> None:
    stage.worker.advertise("researcher", "writer", model="gpt-5-mini")

    first = await read(http, "/v1/agents", limit=2)
    second = await read(http, "/v1/agents", limit=2, cursor=first["next_cursor"])

    AgentsAnswer.model_validate(first)
    assert [agent["name"] for agent in first["agents"]] == ["researcher", "support"]
    assert [agent["name"] for agent in second["agents"]] == ["writer"]
    assert second["next_cursor"] is None
    assert all(agent["live"] for agent in first["agents"])
    assert "digest" not in first["agents"][0]
    toolsets = await read(http, "/v1/toolsets")
    ToolsetsAnswer.model_validate(toolsets)
    assert toolsets["toolsets"] == [{"name": "handbook", "tools": ["search_handbook"]}]


@pytest.mark.parametrize("path", ["agents", "toolsets", "workers", "queues", "dead-letters"])
async def test_a_cursor_of_another_list_is_refused(http: httpx2.AsyncClient, path: str) -> None:
    for cursor in ("x", "WzFd", "eyJhIjoxfQ", "é"):
        answer = await http.get(f"/v1/{path}", params={"cursor": cursor})
        assert (answer.status_code, answer.json()["field"]) == (422, "cursor")


async def test_a_worker_is_listed_and_asked_to_drain(stage: AccessStage, http: httpx2.AsyncClient) -> None:
    run = await stage.run()
    stage.worker.claim(run)

    found = await read(http, "/v1/workers")
    WorkersAnswer.model_validate(found)
    [worker] = found["workers"]
    assert (worker["process"], worker["runs"], worker["drain_asked"]) == (PROCESS, 1, False)

    asked = await http.post(f"/v1/workers/{PROCESS}/drain")
    assert asked.status_code == 202
    assert WorkerAnswer.model_validate(asked.json()).drain_asked
    assert stage.worker.link.execute("GET", keys.drain(PROCESS)) == b"1"
    [worker] = (await read(http, "/v1/workers"))["workers"]
    assert worker["drain_asked"]


@pytest.mark.parametrize("process", ["nobody", PROCESS[:8], "w1@alpha"])
async def test_a_drain_names_a_process_and_no_other(http: httpx2.AsyncClient, process: str) -> None:
    refused = await http.post(f"/v1/workers/{process}/drain")
    assert (refused.status_code, refused.json()["code"]) == (404, "NOT_FOUND")


async def test_a_dead_worker_cannot_be_drained(stage: AccessStage, http: httpx2.AsyncClient) -> None:
    stage.worker.vanish()
    [worker] = (await read(http, "/v1/workers"))["workers"]
    assert worker["lease_ms"] is None
    assert (await http.post(f"/v1/workers/{PROCESS}/drain")).status_code == 404


async def test_queues_tell_how_many_runs_wait(stage: AccessStage, http: httpx2.AsyncClient) -> None:
    for session in ("a", "b", "c"):
        await stage.run(session=session)
    await stage.run(tenant="other")

    found = await read(http, "/v1/queues")

    QueuesAnswer.model_validate(found)
    assert found["queues"] == [{"name": "retinue", "queued": 4, "workers": 0}]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/workers"),
        ("POST", f"/v1/workers/{PROCESS}/drain"),
        ("GET", "/v1/queues"),
        ("GET", "/v1/dead-letters"),
        ("GET", "/v1/dead-letters/x"),
        ("POST", "/v1/dead-letters/x/replay"),
        ("DELETE", "/v1/dead-letters/x"),
    ],
)
async def test_operations_need_an_admins_key(stage: AccessStage, method: str, path: str) -> None:
    writer = stage.http(stage.issue(scopes=["run:read", "run:write"]).text)
    assert (await writer.request(method, path)).status_code == 403
    assert (await stage.http().request(method, path)).status_code == 401


async def test_dead_letters_are_paged_shown_replayed_and_discarded(
    stage: AccessStage, http: httpx2.AsyncClient
) -> None:
    lost = [await stage.run(session=f"s{number}") for number in range(5)]
    for run in lost:
        stage.worker.give_up(run)
    other = await stage.run(tenant="other")

    listed: list[str] = []
    cursor = None
    while True:
        page = await read(http, "/v1/dead-letters", limit=2, **({"cursor": cursor} if cursor else {}))
        DeadLettersAnswer.model_validate(page)
        listed += [letter["run_id"] for letter in page["dead_letters"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert sorted(listed) == sorted(run.subagent_id for run in lost)

    run_id = lost[0].subagent_id
    shown = await read(http, f"/v1/dead-letters/{run_id}")
    DeadLetterAnswer.model_validate(shown)
    assert shown["request"]["goal"] == "Help."
    replayed = await http.post(f"/v1/dead-letters/{run_id}/replay")
    assert replayed.status_code == 201
    assert replayed.headers["location"] == f"/v1/runs/{replayed.json()['run_id']}"
    assert (await http.post(f"/v1/dead-letters/{run_id}/replay")).status_code == 404
    discarded = await http.delete(f"/v1/dead-letters/{lost[1].subagent_id}")
    assert discarded.json() == {"discarded": True}
    assert (await http.delete(f"/v1/dead-letters/{lost[1].subagent_id}")).status_code == 404
    assert (await http.get(f"/v1/dead-letters/{other.subagent_id}")).status_code == 404
    assert len((await read(http, "/v1/dead-letters"))["dead_letters"]) == 3


async def test_another_tenants_letters_are_not_there(stage: AccessStage) -> None:
    run = await stage.run()
    stage.worker.give_up(run)
    foreign = stage.http(stage.issue("other").text)
    assert (await read(foreign, "/v1/dead-letters"))["dead_letters"] == []
    assert (await foreign.post(f"/v1/dead-letters/{run.subagent_id}/replay")).status_code == 404
    assert (await foreign.delete(f"/v1/dead-letters/{run.subagent_id}")).status_code == 404


async def test_usage_sums_up_a_sessions_runs_by_agent(stage: AccessStage, http: httpx2.AsyncClient) -> None:
    for _ in range(2):
        stage.worker.complete(await stage.run())
    await stage.run(session="elsewhere")

    found = await read(http, "/v1/usage", session="customer-42")

    SessionUsageAnswer.model_validate(found)
    assert (found["runs"], found["unknown"], found["left_out"]) == (2, 0, 0)
    assert found["total"] == found["by_agent"]["support"]
    assert (found["total"]["input_tokens"], found["total"]["model_calls"]) == (10, 2)
    nothing = await read(http, "/v1/usage", session="customer-42", agent="researcher")
    assert (nothing["runs"], nothing["by_agent"]) == (0, {})
    assert (await read(stage.http(stage.issue("other").text), "/v1/usage", session="customer-42"))[
        "runs"
    ] == 0
    assert (await http.get("/v1/usage")).status_code == 422


async def test_nothing_of_a_prompt_is_in_a_list(stage: AccessStage, http: httpx2.AsyncClient) -> None:
    stage.worker.give_up(await stage.run())
    assert "Help." not in json.dumps(await read(http, "/v1/dead-letters"))
