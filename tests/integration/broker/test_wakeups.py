"""Sending wake-ups: through the store's link, through kombu, and into the void."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis

from retinue.broker.app import create_app
from retinue.broker.envelope import WakeUpKind
from retinue.broker.routes import queue_key
from retinue.broker.settings import Settings
from retinue.broker.wakeups import Waker, WakeUp
from retinue.contract.ids import new_run_id
from retinue.store.connections.link import AsyncLink
from retinue.testing.servers import PrivateServer

NOWHERE = "redis://:hunter2@127.0.0.1:1/0"


class SyncLink:
    def __init__(self, client: redis.Redis) -> None:
        self.execute = client.execute_command


def wakeup(queue: str = "retinue", priority: int = 6, parent_id: str | None = None) -> WakeUp:
    run_id = new_run_id(9)
    root_id = parent_id or run_id
    return WakeUp("acme", run_id, 2, WakeUpKind.RESUME, "writer", queue, priority, root_id, parent_id)


def run_ids(client: redis.Redis, key: str) -> list[str]:
    envelopes: Any = client.lrange(key, 0, -1)
    return [json.loads(one)["headers"]["argsrepr"] for one in reversed(envelopes)]


@pytest.fixture
def client(valkey_server: PrivateServer) -> redis.Redis:
    valkey_server.flush()
    return valkey_server.client()


@pytest.fixture
def app(valkey_server: PrivateServer) -> Any:
    return create_app(Settings.read(store_url=valkey_server.url))


async def test_wake_ups_of_a_queue_leave_in_one_command_in_order(
    app: Any, valkey_server: PrivateServer, client: redis.Redis
) -> None:
    link = AsyncLink(valkey_server.url)
    first, second, other = wakeup(), wakeup(), wakeup("gpu", 0)
    try:
        assert await Waker(app, link=link).send(first, second, other)
    finally:
        await link.close()

    assert link.commands == 2
    assert run_ids(client, queue_key("retinue", 6)) == [first.run_id, second.run_id]
    assert run_ids(client, "gpu") == [other.run_id]


def test_both_ways_put_the_same_message_on_the_same_list(app: Any, client: redis.Redis) -> None:
    sent = wakeup(parent_id=new_run_id(9))
    assert Waker(app, sync_link=SyncLink(client)).send_sync(sent)
    assert Waker(app).send_sync(sent)

    envelopes: Any = client.lrange(queue_key("retinue", 6), 0, -1)
    kombus, ours = (json.loads(one) for one in envelopes)
    # What may differ is told in test_envelope.py.
    for name in ("delivery_tag", "reply_to", "argsrepr", "kwargsrepr"):
        for message in (kombus, ours):
            message["properties"].pop(name, None)
    assert ours == kombus
    assert ours["headers"]["parent_id"] == f"{sent.parent_id}.1"


async def test_a_broker_of_its_own_is_reached_from_a_loop_too(app: Any, client: redis.Redis) -> None:
    sent = wakeup()

    assert await Waker(app).send(sent)

    assert run_ids(client, queue_key("retinue", 6)) == [sent.run_id]


async def test_what_cannot_be_sent_is_logged_without_the_address(caplog: pytest.LogCaptureFixture) -> None:
    app = create_app(Settings.read(store_url=NOWHERE))
    link = AsyncLink(NOWHERE, connect_timeout_s=0.5, retries=0)
    sent = wakeup()
    try:
        assert not await Waker(app, link=link).send(sent)
        assert not await Waker(app).send(sent)
        assert not Waker(app).send_sync(sent)
    finally:
        await link.close()

    assert caplog.text.count(f"wakeups.not_sent count=1 first={sent.run_id}") == 3
    assert "hunter2" not in caplog.text


def test_a_script_is_told_the_list_and_the_message(app: Any, client: redis.Redis) -> None:
    waker = Waker(app)
    sent = wakeup(priority=3)

    key, envelope = waker.list_and_envelope(sent)

    assert key == queue_key("retinue", 3)
    assert json.loads(envelope)["headers"]["id"] == f"{sent.run_id}.2"
