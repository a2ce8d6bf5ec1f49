"""Many who wait cost few connections, and nobody waits longer than there is something to wait for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import httpx2
import pytest
from tests.integration.http.access_stage import AccessStage, access_stage
from tests.unit.http.asgi import call, request_scope

from retinue.client import SubagentHandle

DEADLINE_S = 90.0
WAITERS = 1_000


@pytest.fixture
async def stage(fresh_store_url: str) -> AsyncIterator[AccessStage]:
    """The application over an empty store; a wait may be as slow as the machine."""
    http = {"requests_per_minute": 0}
    async with access_stage(fresh_store_url, store_timeout_seconds=60.0, http=http) as made:
        yield made


@pytest.fixture
def api(stage: AccessStage) -> httpx2.AsyncClient:
    """A client with a key of all scopes."""
    client = stage.http(stage.issue().text)
    client.timeout = httpx2.Timeout(DEADLINE_S)
    return client


def watched(stage: AccessStage) -> int:
    """How many channels of ends are listened to: none, once nobody waits."""
    return len(stage.worker.link.execute("PUBSUB", "CHANNELS"))


def connections(stage: AccessStage) -> int:
    """Connections of the application to the store."""
    clients = stage.worker.link.execute("CLIENT", "LIST").decode()
    return clients.count("name=retinue-client")


async def until(true: Callable[[], bool]) -> None:
    """Returns once something is so."""
    async with asyncio.timeout(DEADLINE_S):
        while not true():  # noqa: ASYNC110 - the server tells nobody who listens
            await asyncio.sleep(0.05)


async def until_watched(stage: AccessStage, count: int) -> None:
    """Returns once so many channels are listened to."""
    await until(lambda: watched(stage) == count)


def end(stage: AccessStage, run: SubagentHandle) -> None:
    """Takes a queued run to its end."""
    stage.worker.finish(run, stage.worker.claim(run))


async def test_a_thousand_long_polls_use_few_connections(stage: AccessStage, api: httpx2.AsyncClient) -> None:
    runs = [await stage.run(session=f"s{number}") for number in range(10)]
    paths = [f"/v1/runs/{run.subagent_id}/wait?timeout_seconds=60" for run in runs]
    waits = [asyncio.ensure_future(api.get(paths[at % len(paths)])) for at in range(WAITERS)]
    await until(lambda: [task.get_name() for task in asyncio.all_tasks()].count("long-poll") == WAITERS)
    await until_watched(stage, len({run.subagent_id[:6] for run in runs}))

    assert connections(stage) <= 8
    for run in runs:
        end(stage, run)
    async with asyncio.timeout(DEADLINE_S):
        answers = await asyncio.gather(*waits)

    assert {answer.status_code for answer in answers} == {200}
    assert {answer.json()["state"] for answer in answers} == {"SUCCEEDED"}
    assert connections(stage) <= 8


async def test_a_client_that_leaves_frees_its_waiter(stage: AccessStage) -> None:
    run = await stage.run()
    headers = {"Authorization": f"Bearer {stage.issue().text}", "Host": "127.0.0.1"}
    path = f"/v1/runs/{run.subagent_id}/wait"
    scope = {**request_scope("GET", path, headers), "query_string": b"timeout_seconds=60"}

    async with asyncio.timeout(DEADLINE_S):
        before = asyncio.get_running_loop().time()
        await call(stage.app, scope)
        assert asyncio.get_running_loop().time() - before < 60
    await until_watched(stage, 0)


@pytest.mark.parametrize("several", [False, True])
async def test_who_waits_is_answered_at_once_when_the_process_is_told_to_end(
    stage: AccessStage, api: httpx2.AsyncClient, several: bool
) -> None:
    run = await stage.run()
    body = {"runs": [run.subagent_id], "timeout_seconds": 60}
    asked = (
        api.post("/v1/wait", json=body)
        if several
        else api.get(f"/v1/runs/{run.subagent_id}/wait?timeout_seconds=60")
    )
    waiting = asyncio.ensure_future(asked)
    await until_watched(stage, 1)

    stage.service.stopping.set()
    async with asyncio.timeout(DEADLINE_S):
        answer = (await waiting).json()

    [state] = answer["states"] if several else [answer]
    assert (state["state"], state["completed"], state["timed_out"]) == ("PENDING", False, True)


async def test_any_is_answered_at_the_first_end_and_all_at_the_last(
    stage: AccessStage, api: httpx2.AsyncClient
) -> None:
    first, last = await stage.run(), await stage.run()
    body = {"runs": [first.subagent_id, last.to_dict()], "timeout_seconds": 60}
    of_any = asyncio.ensure_future(api.post("/v1/wait", json={**body, "mode": "any"}))
    of_all = asyncio.ensure_future(api.post("/v1/wait", json={**body, "mode": "all"}))
    await until_watched(stage, 1)

    end(stage, first)
    async with asyncio.timeout(DEADLINE_S):
        states = [state["state"] for state in (await of_any).json()["states"]]
        assert states == ["SUCCEEDED", "PENDING"]
        assert not of_all.done()
        end(stage, last)
        states = [state["state"] for state in (await of_all).json()["states"]]

    assert states == ["SUCCEEDED", "SUCCEEDED"]


async def test_a_wait_of_no_time_looks_once(stage: AccessStage, api: httpx2.AsyncClient) -> None:
    run = await stage.run()

    answer = await api.get(f"/v1/runs/{run.subagent_id}/wait?timeout_seconds=0")

    assert (answer.json()["state"], answer.json()["timed_out"]) == ("PENDING", True)


@pytest.mark.parametrize("wrong", ["-1", "60.5", "nan", "inf", "soon"])
async def test_a_wait_is_between_nothing_and_a_minute(
    stage: AccessStage, api: httpx2.AsyncClient, wrong: str
) -> None:
    run = await stage.run()

    answer = await api.get(f"/v1/runs/{run.subagent_id}/wait?timeout_seconds={wrong}")

    assert (answer.status_code, answer.json()["field"]) == (422, "timeout_seconds")
