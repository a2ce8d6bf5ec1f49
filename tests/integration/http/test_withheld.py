"""Who may only read gets no handle that would let them write, and can still use what they get."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from tests.integration.http.access_stage import AccessStage, access_stage, shown

from retinue.client import SubagentHandle


@pytest.fixture
async def stage(fresh_store_url: str) -> AsyncIterator[AccessStage]:
    """The application over an empty store."""
    async with access_stage(fresh_store_url, store_timeout_seconds=60.0) as made:
        yield made


async def handles(api: httpx2.AsyncClient, run_id: str) -> list[dict[str, Any]]:
    """Every handle of a run that the API gives away."""
    one = [
        (await api.get(f"/v1/runs/{run_id}{path}")).json()["handle"]
        for path in ("", "/result", "/wait?timeout_seconds=0")
    ]
    listed = [(await api.get("/v1/runs", params=query)).json() for query in ({}, {"session": "customer-42"})]
    waited = await api.post("/v1/wait", json={"runs": [run_id], "timeout_seconds": 0})
    results = await api.post("/v1/results", json={"runs": [run_id]})
    several = [page["runs"][0] for page in listed]
    several += [waited.json()["states"][0], results.json()["results"][0]]
    return [*one, *(each["handle"] for each in several)]


async def test_a_reader_gets_no_capability_and_a_writer_does(stage: AccessStage) -> None:
    run = await stage.run()
    reader = stage.http(stage.issue(scopes=["run:read"]).text)
    writer = stage.http(stage.issue(scopes=["run:write"]).text)

    withheld = {**run.to_dict(), "capability": "withheld"}
    assert await handles(reader, run.subagent_id) == [withheld] * 7
    assert await handles(writer, run.subagent_id) == [run.to_dict()] * 7


async def test_what_a_reader_gets_opens_nothing_by_itself(stage: AccessStage) -> None:
    run = await stage.run()
    given = SubagentHandle.from_dict({**run.to_dict(), "capability": "withheld"})

    answer = await stage.http(Retinue_Handle=shown(given)).post(f"/v1/runs/{run.subagent_id}/cancel")

    assert answer.status_code == 401


async def test_a_reader_can_use_what_it_gets(stage: AccessStage) -> None:
    run = await stage.run()
    given = {**run.to_dict(), "capability": "withheld"}
    key = stage.issue(scopes=["run:read"]).text
    reader = stage.http(key, Retinue_Handle=shown(given))

    assert (await reader.get(f"/v1/runs/{run.subagent_id}")).json()["state"] == "PENDING"
    assert (await reader.post(f"/v1/runs/{run.subagent_id}/cancel")).status_code == 403
    waited = await stage.http(key).post("/v1/wait", json={"runs": [given], "timeout_seconds": 0})
    assert [state["state"] for state in waited.json()["states"]] == ["PENDING"]
    forged = {**run.to_dict(), "capability": "v1.k1.forged"}
    other = stage.http(key, Retinue_Handle=shown(forged))
    assert (await other.get(f"/v1/runs/{run.subagent_id}")).status_code == 404


async def test_a_handle_by_itself_is_given_back_whole(stage: AccessStage) -> None:
    run = await stage.run()
    holder = stage.http(Retinue_Handle=shown(run))

    assert (await holder.get(f"/v1/runs/{run.subagent_id}")).json()["handle"] == run.to_dict()
