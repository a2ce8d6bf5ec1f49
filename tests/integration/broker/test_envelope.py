"""The envelope that is pushed without Celery is what Celery itself would have published."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from celery import Celery, signals

from retinue.broker.app import create_app
from retinue.broker.envelope import EnvelopeTemplate, WakeUpKind
from retinue.broker.routes import queue_key
from retinue.broker.settings import Settings
from retinue.contract.ids import task_id
from retinue.testing.servers import PrivateServer

RUN = "sa-p05-3cjiuinqveh76vtgvxocv7v7ou"
ROOT = "sa-p05-6wfpgrrqmiqrbektdv7xrf3wa4"


@pytest.fixture
def app(valkey_server: PrivateServer) -> Celery:
    valkey_server.flush()
    return create_app(Settings.read(store_url=valkey_server.url))


def filled(app: Celery, parent: str | None = f"{ROOT}.1", **changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {"agent": "researcher", "queue": "gpu", "priority": 3, "tenant": "acme"}
    values |= changes
    envelope = EnvelopeTemplate.capture(app).fill(
        WakeUpKind.RESUME,
        values["tenant"],
        RUN,
        7,
        f"{ROOT}.1",
        parent,
        values["agent"],
        values["queue"],
        values["priority"],
    )
    return json.loads(envelope)


def published(app: Celery, server: PrivateServer, parent: str | None = f"{ROOT}.1") -> dict[str, Any]:
    @app.task(name="retinue.resume", shared=False, ignore_result=True)
    def resume(tenant: str, run_id: str) -> None: ...

    app.tasks["retinue.resume"].apply_async(
        args=("acme", RUN),
        task_id=task_id(RUN, 7),
        queue="gpu",
        priority=3,
        shadow="researcher",
        root_id=f"{ROOT}.1",
        parent_id=parent,
        argsrepr=RUN,
        kwargsrepr="{}",
    )
    raw: Any = server.client().rpop(queue_key("gpu", 3))
    return json.loads(raw)


@pytest.mark.parametrize("parent", [f"{ROOT}.1", None])
def test_the_filled_envelope_equals_a_published_message(
    app: Celery, valkey_server: PrivateServer, parent: str | None
) -> None:
    ours, theirs = filled(app, parent), published(app, valkey_server, parent)

    # Random uuids there: a tag need only be unique, and nobody replies.
    for name, own in (("delivery_tag", task_id(RUN, 7)), ("reply_to", "")):
        assert ours["properties"].pop(name) == own
        assert isinstance(theirs["properties"].pop(name), str)
    # Celery repeats what it was called with; workers read it from the headers.
    for name in ("argsrepr", "kwargsrepr"):
        assert theirs["properties"].pop(name) == theirs["headers"][name]
    assert decoded_body(ours) == decoded_body(theirs)
    assert ours == theirs


def test_the_message_tells_nothing_but_ids_and_the_agents_name(app: Celery) -> None:
    envelope = filled(app)

    assert decoded_body(envelope)[:2] == [["acme", RUN], {}]
    assert envelope["headers"]["argsrepr"] == RUN
    assert envelope["headers"]["kwargsrepr"] == "{}"


def test_a_canary_names_no_run_and_is_what_a_worker_reads(app: Celery) -> None:
    message = json.loads(EnvelopeTemplate.capture(app).canary("0af3", "gpu"))
    assert (message["headers"]["task"], message["headers"]["id"]) == ("retinue.canary", "0af3")
    assert message["properties"]["delivery_info"]["routing_key"] == "gpu"
    assert json.loads(base64.b64decode(message["body"]))[:2] == [["0af3"], {}]
    assert "@" not in json.dumps({**message["headers"], "origin": ""})


@pytest.mark.parametrize("agent", ['say "hi" @run@', "Übersetzer", "back\\slash", "@id@"])
def test_any_agent_name_arrives_as_it_is(app: Celery, agent: str) -> None:
    assert filled(app, agent=agent)["headers"]["shadow"] == agent


def test_capturing_asks_no_server_and_tells_no_listener() -> None:
    heard: list[object] = []

    def listen(sender: object = None, **_: object) -> None:
        heard.append(sender)

    signals.before_task_publish.connect(listen)
    try:
        EnvelopeTemplate.capture(create_app(Settings.read(store_url="redis://localhost:1/0")))
    finally:
        signals.before_task_publish.disconnect(listen)

    assert heard == []


def decoded_body(envelope: dict[str, Any]) -> list[Any]:
    return json.loads(base64.b64decode(envelope["body"]))
