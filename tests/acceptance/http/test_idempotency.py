"""Idempotency-Key with processes: posts that race through two of them, and one that is killed midway."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from tests.acceptance.http.http_rig import ApiProcess, HttpRig
from tests.acceptance.run_rig import DEADLINE_S

from retinue.store import keys
from retinue.testing.proxy import FaultProxy, Loss

POSTS = 50
PAUSE_S = 0.2
BROKEN_OFF = (httpx2.ReadError, httpx2.RemoteProtocolError)


def body(session: str) -> dict[str, Any]:
    return {"session_id": session, "agent": "echo", "goal": f"Once, in {session}."}


def post(client: httpx2.Client, session: str, key: str = "order-9001") -> httpx2.Response:
    return client.post("/v1/runs", json=body(session), headers={"Idempotency-Key": key})


def runs(web: HttpRig, session: str) -> list[str]:
    """The ids of all runs that were ever launched in a session."""
    return web.rig.store.zrange(keys.session("_", session), 0, -1)


def answered(client: httpx2.Client, session: str) -> httpx2.Response:
    """The answer, once no other attempt is waited for any more."""
    deadline = time.monotonic() + DEADLINE_S
    while (answer := post(client, session)).status_code == 409:
        assert answer.json()["code"] == "IDEMPOTENCY_IN_FLIGHT"
        assert time.monotonic() < deadline, answer.text
        time.sleep(PAUSE_S)
    return answer


@pytest.fixture(scope="module")
def second(web: HttpRig) -> ApiProcess:
    """Another process, over the same store."""
    web.rig.worker(concurrency=4)
    return web.api(store_timeout_seconds=30.0)


def test_fifty_posts_at_once_through_two_processes_make_one_run(web: HttpRig, second: ApiProcess) -> None:
    key = web.key()
    clients = [web.http(key), web.http(key, api=second)]
    with ThreadPoolExecutor(POSTS) as pool:
        answers = list(pool.map(lambda n: post(clients[n % 2], "fifty"), range(POSTS)))
    statuses = {answer.status_code for answer in answers}
    assert statuses <= {201, 409}, statuses
    launched = [answer for answer in answers if answer.status_code == 201]
    assert {answer.content for answer in launched} == {launched[0].content}
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} <= {
        "IDEMPOTENCY_IN_FLIGHT"
    }
    assert runs(web, "fifty") == [launched[0].json()["run_id"]]

    for client in clients:
        again = answered(client, "fifty")
        assert (again.content, again.headers["idempotent-replayed"]) == (launched[0].content, "true")
    assert post(web.http(), "fifty").json()["run_id"] != launched[0].json()["run_id"], "another key"


@pytest.fixture
def proxy(web: HttpRig) -> Iterator[FaultProxy]:
    """The way of one API process to the store."""
    with FaultProxy(web.rig.server.port) as made:
        yield made


def test_a_process_that_is_killed_between_launch_and_answer_leaves_one_run(
    web: HttpRig, second: ApiProcess, proxy: FaultProxy
) -> None:
    doomed = web.api(store_url=proxy.url, store_timeout_seconds=60.0)
    key = web.key()
    assert post(web.http(key, api=doomed), "warm", "warm").status_code == 201
    # The launch is carried out, and the process never hears of it.
    proxy.lose(Loss.SILENCE, to=b"Once, in killed.")
    with ThreadPoolExecutor(1) as pool:
        broken = pool.submit(post, web.http(key, api=doomed), "killed")
        web.rig.wait_until(lambda: bool(runs(web, "killed")), "the launch")
        doomed.kill()
        assert isinstance(broken.exception(DEADLINE_S), BROKEN_OFF)
    [launched] = runs(web, "killed")

    client = web.http(key, api=second)
    answer = answered(client, "killed")
    assert (answer.status_code, answer.json()["run_id"]) == (201, launched)
    assert "idempotent-replayed" not in answer.headers, "nobody had been answered"
    end = client.get(f"{answer.headers['location']}/wait", params={"timeout_seconds": DEADLINE_S})
    assert end.json()["state"] == "SUCCEEDED"
    again = post(client, "killed")
    assert (again.content, again.headers["idempotent-replayed"]) == (answer.content, "true")
    assert runs(web, "killed") == [launched]


def test_a_process_that_is_killed_before_the_launch_leaves_none(
    web: HttpRig, second: ApiProcess, proxy: FaultProxy
) -> None:
    doomed = web.api(store_url=proxy.url, store_timeout_seconds=60.0)
    key = web.key()
    assert post(web.http(key, api=doomed), "warm", "warm").status_code == 201
    # What it is to do is noted; what came of that it never hears.
    proxy.lose(Loss.SILENCE, to=b"retinue:once:")
    with ThreadPoolExecutor(1) as pool:
        broken = pool.submit(post, web.http(key, api=doomed), "early")
        web.rig.wait_until(lambda: not proxy.losses_left, "the beginning")
        doomed.kill()
        assert isinstance(broken.exception(DEADLINE_S), BROKEN_OFF)
    assert runs(web, "early") == []

    answer = answered(web.http(key, api=second), "early")
    assert answer.status_code == 201
    assert runs(web, "early") == [answer.json()["run_id"]]
