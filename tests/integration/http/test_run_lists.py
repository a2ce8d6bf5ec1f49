"""Lists of runs over HTTP: by session, by tree, and of what is live; page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from tests.integration.http.access_stage import AccessStage, access_stage


@pytest.fixture
async def stage(fresh_store_url: str) -> AsyncIterator[AccessStage]:
    """The application over an empty store."""
    async with access_stage(fresh_store_url, store_timeout_seconds=60.0) as made:
        yield made


@pytest.fixture
def api(stage: AccessStage) -> httpx2.AsyncClient:
    """A client with a key of all scopes."""
    return stage.http(stage.issue().text)


async def page(api: httpx2.AsyncClient, **query: Any) -> dict[str, Any]:
    """A page of runs."""
    answer = await api.get("/v1/runs", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def ids(found: dict[str, Any]) -> list[str]:
    """Which runs stand in a page."""
    return [run["handle"]["subagent_id"] for run in found["runs"]]


async def test_a_session_is_listed_page_by_page_as_the_facade_lists_it(
    stage: AccessStage, api: httpx2.AsyncClient
) -> None:
    runs = [await stage.run() for _ in range(5)]
    await stage.run(session="another")

    first = await page(api, session="customer-42", limit=3)
    second = await page(api, session="customer-42", limit=3, cursor=first["next_cursor"])

    facade = stage.service.operator("_")
    listed = [run.to_dict() for run in await facade.list(session_id="customer-42")]
    assert [run["handle"] for run in first["runs"] + second["runs"]] == [run["handle"] for run in listed]
    assert {*ids(first), *ids(second)} == {run.subagent_id for run in runs}
    assert (len(first["runs"]), second["next_cursor"]) == (3, None)


async def test_a_run_that_is_launched_meanwhile_moves_nothing_twice_into_sight(
    stage: AccessStage, api: httpx2.AsyncClient
) -> None:
    runs = [await stage.run() for _ in range(4)]
    first = await page(api, session="customer-42", limit=2)
    await stage.run()
    await stage.run()

    second = await page(api, session="customer-42", limit=10, cursor=first["next_cursor"])

    assert sorted(ids(first) + ids(second)) == sorted(run.subagent_id for run in runs)


async def test_runs_are_filtered_by_state_and_agent(stage: AccessStage, api: httpx2.AsyncClient) -> None:
    waiting, working = await stage.run(), await stage.run()
    stage.worker.claim(working)

    assert ids(await page(api, session="customer-42", state="STARTING")) == [working.subagent_id]
    assert ids(await page(api, session="customer-42", state="PENDING")) == [waiting.subagent_id]
    assert len(ids(await page(api, session="customer-42", agent="support"))) == 2
    assert ids(await page(api, session="customer-42", agent="researcher")) == []


async def test_without_session_and_tree_the_live_runs_of_the_tenant_are_listed(
    stage: AccessStage, api: httpx2.AsyncClient
) -> None:
    live = [await stage.run(session=f"s{number}") for number in range(3)]
    over = await stage.run()
    stage.worker.finish(over, stage.worker.claim(over))

    found = await page(api)

    assert sorted(ids(found)) == sorted(run.subagent_id for run in live)
    first = await page(api, limit=2)
    second = await page(api, limit=2, cursor=first["next_cursor"])
    assert sorted(ids(first) + ids(second)) == sorted(ids(found))


async def test_a_tree_is_listed_by_any_run_of_it(stage: AccessStage, api: httpx2.AsyncClient) -> None:
    run = await stage.run()

    assert ids(await page(api, tree=run.subagent_id)) == [run.subagent_id]


@pytest.mark.parametrize(
    ("query", "status", "field"),
    [
        ({"state": "DONE"}, 422, "state"),
        ({"limit": 0}, 422, "limit"),
        ({"limit": 201}, 422, "limit"),
        ({"cursor": "nonsense"}, 422, "cursor"),
        ({"session": "a{b}"}, 422, "session"),
        ({"session": "a", "tree": "sa-p00-" + "a" * 26}, 422, "tree"),
        ({"tree": "nonsense"}, 404, "run_id"),
        ({"tree": "sa-p00-" + "a" * 26}, 404, "run_id"),
    ],
)
async def test_a_list_that_there_cannot_be_is_refused(
    api: httpx2.AsyncClient, query: dict[str, Any], status: int, field: str
) -> None:
    answer = await api.get("/v1/runs", params=query)

    assert (answer.status_code, answer.json()["field"]) == (status, field), answer.text


async def test_another_tenants_runs_are_in_no_list(stage: AccessStage, api: httpx2.AsyncClient) -> None:
    run = await stage.run()
    other = stage.http(stage.issue("other").text)

    assert ids(await page(other, session="customer-42")) == []
    assert ids(await page(other)) == []
    assert (await other.get("/v1/runs", params={"tree": run.subagent_id})).status_code == 404
