"""Liveness and readiness without a real worker: what is asked, how often, and what is told to whom."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import httpx2
import pytest
from tests.integration.client.store_worker import PROCESS, StoreWorker

from retinue.broker.canaries import answer_canary
from retinue.broker.routes import private_queue, queue_keys
from retinue.broker.settings import Settings
from retinue.http import create_app
from retinue.http.readiness.part import EVERY_S
from retinue.http.schemas.health import AliveAnswer, ReadyAnswer
from retinue.store import keys
from retinue.store.operations.api_keys import create_key
from retinue.testing.servers import PrivateServer

ANSWER_S = 1.0


class HealthStage:
    """The application over an empty store, and a worker that answers canaries as a test says."""

    def __init__(self, server: PrivateServer, stack: AsyncExitStack, url: str = "") -> None:
        server.flush()
        settings = Settings.read(store_url=url or server.url, http={"readiness_seconds": ANSWER_S})
        self.app = create_app(settings)
        self.worker = StoreWorker(server.url)
        stack.callback(self.worker.close)
        self._stack = stack

    async def http(self, host: str = "127.0.0.1", **headers: str) -> httpx2.AsyncClient:
        """A client that comes from this address."""
        transport = httpx2.ASGITransport(app=self.app, client=(host, 4711))
        client = httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers)
        return await self._stack.enter_async_context(client)

    def advertise(self, **fields: Any) -> None:
        """A worker that lives and serves the queue `retinue`."""
        self.worker.advertise("support")
        entry = {"agents": ["support"], "queues": ["retinue"], "name": "w1@alpha", "slots": 1, **fields}
        self.worker.link.execute("HSET", keys.WORKERS, PROCESS, json.dumps(entry))

    def pop(self, queue: str) -> str | None:
        """The nonce of a canary in a queue."""
        raw = self.worker.link.execute("RPOP", queue)
        return None if raw is None else json.loads(raw)["headers"]["id"]

    async def take(self, *queues: str) -> list[str]:
        """Takes the next canary of each queue, and answers it."""
        nonces: list[str] = []
        for queue in queues:
            popped = await asyncio.to_thread(self.worker.link.execute, "BRPOP", queue, 2)
            nonce = json.loads(popped[1])["headers"]["id"]
            self.worker.store.run(answer_canary(nonce, PROCESS, is_full=False))
            nonces.append(nonce)
        return nonces


@pytest.fixture
async def stage(valkey_server: PrivateServer) -> AsyncIterator[HealthStage]:
    async with AsyncExitStack() as stack:
        made = HealthStage(valkey_server, stack)
        await stack.enter_async_context(made.app.router.lifespan_context(made.app))
        yield made


async def test_the_process_lives_whatever_the_store_does(stage: HealthStage) -> None:
    answer = await (await stage.http()).get("/healthz")
    assert AliveAnswer.model_validate(answer.json()).alive


async def test_probes_share_one_round_and_its_verdict(stage: HealthStage) -> None:
    stage.advertise(answers_canaries=True)
    http = await stage.http()
    taking = asyncio.create_task(stage.take(private_queue(PROCESS), "retinue"))

    answers = await asyncio.gather(*(http.get("/readyz") for _ in range(20)))
    nonces = await taking
    again = await http.get("/readyz")

    assert {answer.status_code for answer in (*answers, again)} == {200}
    assert all(ReadyAnswer.model_validate(answer.json()).ready for answer in answers)
    assert len(set(nonces)) == 2
    assert EVERY_S > 1, "so the last answer was the old one"
    assert stage.pop("retinue") is None


async def test_what_nobody_took_is_removed_and_the_answer_names_it_to_who_may_know(
    stage: HealthStage,
) -> None:
    stage.advertise(answers_canaries=True)
    local, remote = await stage.http(), await stage.http("203.0.113.7")
    issued = create_key(stage.worker.store, tenant="_", scopes=("admin",))
    weak = create_key(stage.worker.store, tenant="_", scopes=("run:write",))

    answer = await local.get("/readyz")
    assert answer.status_code == 503
    assert "w1@alpha" in answer.text
    assert "queue retinue" in answer.text
    for queue in ("retinue", private_queue(PROCESS)):
        assert [stage.worker.link.execute("LLEN", key) for key in queue_keys(queue)] == [0, 0, 0, 0]

    told = [
        (await remote.get("/readyz")).text,
        (await remote.get("/readyz", headers={"Authorization": "Bearer rtn_no_key"})).text,
        (await remote.get("/readyz", headers={"Authorization": f"Bearer {weak.text}"})).text,
        (await local.get("/readyz", headers={"X-Forwarded-For": "203.0.113.7"})).text,
    ]
    for text in told:
        assert "w1" not in text
        assert PROCESS[:8] not in text
        assert "queue retinue" not in text
        assert "1 do not take work" in text or "1 of 1 workers do not take work" in text
    admin = await remote.get("/readyz", headers={"Authorization": f"Bearer {issued.text}"})
    assert "w1@alpha" in admin.text


async def test_a_worker_that_does_not_know_canaries_is_sent_none(stage: HealthStage) -> None:
    stage.advertise()
    answer = await (await stage.http()).get("/readyz")
    assert answer.status_code == 200
    assert "cannot be asked" in answer.text
    assert stage.pop("retinue") is None
    assert stage.pop(private_queue(PROCESS)) is None


async def test_a_broker_that_refuses_canaries_is_not_taken_for_one_that_is_away(
    valkey_server: PrivateServer,
) -> None:
    server = valkey_server.client()
    server.execute_command("ACL", "SETUSER", "weak", "on", ">pw", "~*", "&*", "+@all", "-rpush")
    url = f"redis://weak:pw@127.0.0.1:{valkey_server.port}/0"
    async with AsyncExitStack() as stack:
        stack.callback(server.execute_command, "ACL", "DELUSER", "weak")
        stage = HealthStage(valkey_server, stack, url)
        await stack.enter_async_context(stage.app.router.lifespan_context(stage.app))
        stage.advertise(answers_canaries=True)
        told = (await (await stage.http()).get("/readyz")).json()
    assert told["checks"][-1] == {
        "name": "consuming",
        "ok": False,
        "detail": "store or broker refused to be asked; the log tells why",
    }
