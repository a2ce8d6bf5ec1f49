"""docs/webhooks.md: its example verifies what is really sent, and its settings and routes are there."""

from __future__ import annotations

import json
import re
import time
from types import SimpleNamespace
from typing import Any

from tests.docs.fenced import PROJECT, blocks

from retinue.broker.settings.http import HttpSettings
from retinue.client.launching.requests import launch_request
from retinue.http.routes.webhooks import router
from retinue.http.webhooks.message import message_body
from retinue.http.webhooks.signing import signed_headers
from retinue.store.operations.deliveries import Delivery
from retinue.store.operations.webhooks import new_secret

PAGE = PROJECT / "docs" / "webhooks.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_example_verifies_what_is_sent_and_nothing_else() -> None:
    _, example = blocks(PAGE, "python")
    found: dict[str, Any] = {}
    exec(example, found)
    is_genuine, secret, former = found["is_genuine"], new_secret(), new_secret()
    now, body = int(time.time()), b'{"type":"run.finished"}'
    headers = signed_headers("msg_1", now, body, [secret, former])
    assert is_genuine(headers, body, secret)
    assert is_genuine(headers, body, former)
    assert not is_genuine(headers, body, new_secret())
    assert not is_genuine(headers, body + b" ", secret)
    assert not is_genuine({**headers, "webhook-id": "msg_2"}, body, secret)
    assert not is_genuine(signed_headers("msg_1", now - 3600, body, [secret]), body, secret)


def test_the_launch_names_a_webhook() -> None:
    launch, _ = blocks(PAGE, "python")
    launched: dict[str, Any] = {}
    exec(launch, {"lifecycle": SimpleNamespace(launch=lambda **request: launched.update(request))})  # pyright: ignore[reportUnknownLambdaType]
    webhook = launch_request(launched).webhook
    assert webhook is not None
    assert webhook.url == "https://shop.example/hooks/order-7"


def test_the_message_is_the_one_that_is_posted() -> None:
    (shown,) = (json.loads(block) for block in blocks(PAGE, "json"))
    data = shown["data"]
    fields = {"run": data["run_id"], "sess": data["session_id"], "par": "", "ag": data["agent"], "cls": ""}
    sent = message_body(Delivery("msg_1", {**fields, "rs": data["state"], "fi": "1798761600250"}))
    assert json.loads(sent) == shown


def test_its_settings_have_these_defaults() -> None:
    settings = HttpSettings()
    named = set(re.findall(r"`http\.(\w+)`", TEXT))
    assert named == {name for name in HttpSettings.model_fields if "webhook" in name}
    assert settings.max_webhooks == 20
    assert settings.webhook_timeout_seconds == 10
    assert settings.webhook_retry_seconds == (5, 30, 120, 600, 3_600, 21_600, 86_400)
    assert not settings.webhook_allow_http
    assert not settings.webhook_allow_private_targets
    assert settings.webhook_private_hosts == ()


def test_its_routes_are_all_there_are() -> None:
    named = {
        (method, path.replace("{id}", "{webhook_id}"))
        for methods in re.findall(r"^\| (`[A-Z]+ /v1/webhooks.*?) \|", TEXT, re.MULTILINE)
        for method, path in re.findall(r"`([A-Z]+) (\S+)`", methods)
    }
    assert named == {(method, route.path) for route in router.routes for method in route.methods}  # type: ignore[attr-defined]
