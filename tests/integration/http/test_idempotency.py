"""Idempotency-Key without servers: what is the same request, what frees a key, what a broken one leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from tests.integration.http.access_stage import AccessStage, access_stage, shown

from retinue.store import keys
from retinue.testing.proxy import FaultProxy, Loss
from retinue.testing.servers import PrivateServer

BODY = {"session_id": "customer-42", "agent": "support", "goal": "May I return headphones?"}
SESSION = keys.session("_", "customer-42")


@pytest.fixture
async def front(valkey_url: str) -> AsyncIterator[AccessStage]:
    async with access_stage(valkey_url) as made:
        yield made


async def _post(
    client: httpx2.AsyncClient, body: Any = BODY, key: str = "order-9001", path: str = "/v1/runs"
) -> httpx2.Response:
    return await client.post(path, json=body, headers={"Idempotency-Key": key})


def _code(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def _runs(front: AccessStage) -> int:
    """How many runs were ever launched in the session."""
    return front.worker.link.execute("ZCARD", SESSION)


async def test_the_same_request_gets_the_same_answer_and_starts_nothing(front: AccessStage) -> None:
    client = front.http(front.issue().text)
    first, second = await _post(client), await _post(client)
    reordered = dict(reversed(BODY.items()))
    third = await _post(client, reordered)
    for again in (second, third):
        assert (again.status_code, again.content) == (201, first.content)
        assert again.headers["idempotent-replayed"] == "true"
        assert again.headers["location"] == first.headers["location"]
        assert again.headers["content-type"] == first.headers["content-type"]
    assert "idempotent-replayed" not in first.headers
    assert _runs(front) == 1
    assert first.json()["handle"]["subagent_id"] == first.json()["run_id"]


async def test_without_the_header_each_request_is_a_new_one(front: AccessStage) -> None:
    client = front.http(front.issue().text)
    answers = [await client.post("/v1/runs", json=BODY) for _ in range(2)]
    assert answers[0].json()["run_id"] != answers[1].json()["run_id"]


async def test_another_body_under_the_same_key_is_refused(front: AccessStage) -> None:
    client = front.http(front.issue().text)
    await _post(client)
    for changed in (
        {**BODY, "goal": "Another."},
        {**BODY, "session_id": "another"},
        {**BODY, "timeout_seconds": 9},
    ):
        assert _code(await _post(client, changed)) == (422, "IDEMPOTENCY_CONFLICT")
    assert _runs(front) == 1


async def test_the_same_key_of_another_caller_tenant_or_route_is_another(front: AccessStage) -> None:
    one, other, foreign = (front.http(front.issue(tenant).text) for tenant in ("_", "_", "acme"))
    batch = {"session_id": "customer-42", "requests": [{"agent": "support", "goal": "x"}]}
    answers = [await _post(client) for client in (one, other, foreign)]
    answers.append(await _post(one, batch, path="/v1/runs/batch"))
    assert [answer.status_code for answer in answers] == [201] * 4
    assert not any("idempotent-replayed" in answer.headers for answer in answers)
    assert _runs(front) == 3


async def test_a_batch_is_answered_again_as_a_whole(front: AccessStage) -> None:
    client = front.http(front.issue().text)
    batch = {
        "session_id": "customer-42",
        "requests": [{"agent": "support", "goal": f"g{n}"} for n in range(3)],
    }
    first, second = [await _post(client, batch, path="/v1/runs/batch") for _ in range(2)]
    assert (second.status_code, second.content) == (201, first.content)
    assert len({run["run_id"] for run in first.json()["runs"]}) == 3
    assert _runs(front) == 3


@pytest.mark.parametrize("key", ["", "x" * 256, "tab\there", "naïve"])
async def test_a_key_that_breaks_its_rule_is_refused(front: AccessStage, key: str) -> None:
    client = front.http(front.issue().text)
    answer = await client.post("/v1/runs", json=BODY, headers={"Idempotency-Key": key.encode("latin-1")})
    assert (*_code(answer), answer.json()["field"]) == (422, "INVALID_REQUEST", "Idempotency-Key")
    assert (await _post(client, key="x" * 255)).status_code == 201


async def test_a_refused_request_does_not_occupy_its_key(front: AccessStage) -> None:
    client = front.http(front.issue().text)
    assert _code(await _post(client, {**BODY, "agent": "nobody"})) == (422, "UNKNOWN_AGENT")
    assert _code(await _post(client, {**BODY, "goal": ""}))[0] == 422
    assert (await _post(client)).status_code == 201
    # A correlation id that is taken launches nothing either.
    assert (await _post(client, {**BODY, "correlation_id": "c"}, "k2")).status_code == 201
    assert _code(await _post(client, {**BODY, "correlation_id": "c"}, "k3")) == (409, "DUPLICATE_CORRELATION")
    assert (await _post(client, BODY, "k3")).status_code == 201


async def test_whoever_may_not_launch_learns_nothing_of_keys(front: AccessStage) -> None:
    issued = front.issue()
    assert (await _post(front.http(issued.text))).status_code == 201
    assert _code(await _post(front.http(front.issue("_", ["run:read"]).text))) == (403, "FORBIDDEN")
    assert _code(await _post(front.http())) == (401, "UNAUTHENTICATED")


async def test_a_turn_of_a_conversation_is_taken_once(front: AccessStage) -> None:
    client = front.http(front.issue().text)
    run = (await _post(client)).json()
    _finish(front, run["run_id"])
    path = f"/v1/runs/{run['run_id']}/continue"
    for caller in (client, front.http(Retinue_Handle=shown(run["handle"]))):
        first = await _post(caller, {"text": "And the cable?"}, "turn-2", path)
        second = await _post(caller, {"text": "And the cable?"}, "turn-2", path)
        assert (first.status_code, second.content) == (201, first.content), first.text
        _finish(front, first.json()["run_id"])
    assert _runs(front) == 3
    other = f"/v1/runs/{first.json()['run_id']}/continue"
    assert _code(await _post(client, {"text": "And the cable?"}, "turn-2", other)) == (
        422,
        "IDEMPOTENCY_CONFLICT",
    )


def _finish(front: AccessStage, run_id: str) -> None:
    fence = front.worker.claim(run_id)
    front.worker.record(run_id, fence, front.worker.boundary(run_id, fence))
    front.worker.finish(run_id, fence)


async def test_of_many_at_once_through_two_applications_one_launches(
    front: AccessStage, valkey_url: str
) -> None:
    issued = front.issue()
    async with access_stage(valkey_url) as second:
        clients = [stage.http(issued.text) for stage in (front, second) for _ in range(10)]
        answers = await asyncio.gather(*(_post(client) for client in clients))
    launched = [answer for answer in answers if answer.status_code == 201]
    assert launched
    assert {answer.content for answer in launched} == {launched[0].content}
    for answer in answers:
        if answer.status_code != 201:
            assert _code(answer) == (409, "IDEMPOTENCY_IN_FLIGHT")
            assert answer.headers["retry-after"] == "1"
    assert _runs(front) == 1


async def test_a_launch_of_unknown_outcome_is_found_by_the_next_request(valkey_server: PrivateServer) -> None:
    valkey_server.flush()
    with FaultProxy(valkey_server.port) as proxy:
        async with access_stage(proxy.url, store_timeout_seconds=0.5) as front:
            client = front.http(front.issue().text)
            assert (await _post(client, {**BODY, "session_id": "warm"}, "warm")).status_code == 201
            proxy.lose(Loss.SILENCE, to=BODY["goal"].encode())
            unknown = await _post(client)
            assert _code(unknown) == (503, "LAUNCH_UNKNOWN")
            handle = unknown.json()["handle"]
            proxy.heal()
            second = await _until_answered(client)
            assert second.json()["run_id"] == handle["subagent_id"]
            assert "idempotent-replayed" not in second.headers
            third = await _post(client)
            assert (third.content, third.headers["idempotent-replayed"]) == (second.content, "true")
    with valkey_server.client() as store:
        assert store.zcard(SESSION) == 1


async def _until_answered(client: httpx2.AsyncClient) -> httpx2.Response:
    """The answer, as soon as the one before has been given up."""
    async with asyncio.timeout(45):
        while True:
            answer = await _post(client)
            if answer.status_code not in (409, 503):
                return answer
            await asyncio.sleep(0.1)


async def test_a_run_that_expired_before_its_answer_was_known_is_not_launched_anew(
    front: AccessStage,
) -> None:
    """Its launch is kept for longer than its record, for its conversation may go on."""
    client = front.http(front.issue().text)
    first = (await _post(client)).json()
    _break_off(front)
    front.worker.link.execute("DEL", keys.record("_", first["run_id"]))
    again = await _post(client)
    assert again.status_code == 201
    assert again.json()["run_id"] == first["run_id"]
    assert not front.worker.link.execute("EXISTS", keys.record("_", first["run_id"]))


async def test_a_broken_attempt_is_gone_on_with_though_its_agent_is_gone(front: AccessStage) -> None:
    client = front.http(front.issue().text)
    first = await _post(client)
    _break_off(front)
    front.worker.link.execute("DEL", keys.CATALOGUE, keys.WORKERS)
    async with access_stage(front.service.settings.required_store_url) as other:
        other.worker.link.execute("DEL", keys.CATALOGUE, keys.WORKERS)
        again = await _post(other.http(client.headers["authorization"].removeprefix("Bearer ")))
    assert (again.status_code, again.content) == (201, first.content)
    assert "idempotent-replayed" not in again.headers
    assert _runs(front) == 1


def _break_off(front: AccessStage) -> None:
    """As if the process had died between launch and answer, and its time had run out."""
    [found] = front.worker.link.execute("KEYS", "retinue:once:*")
    front.worker.link.execute("HDEL", found, "ans")
    front.worker.link.execute("HSET", found, "til", 0)
