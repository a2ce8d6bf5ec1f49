from __future__ import annotations

import logging
import re
from types import SimpleNamespace

import pytest
from starlette.types import Receive, Scope, Send
from tests.unit.http.asgi import Plain, call, request_scope

from retinue.http.middleware.request_log import RequestLog, request_id_from

SECRETS = {"Authorization": "Bearer rtn_a_secret", "Retinue-Handle": "secret-handle"}


@pytest.mark.parametrize("given", ["a", "0b6e1c0e-d51f", "trace.1_2", "x" * 64])
def test_a_well_formed_id_is_taken(given: str) -> None:
    assert request_id_from(given) == given


@pytest.mark.parametrize("given", [None, "", "x" * 65, "a b", "a\nb", "a=b", "\u00e4", "a\x00"])
def test_any_other_is_replaced(given: str | None) -> None:
    assert re.fullmatch("[0-9a-f]{32}", request_id_from(given))


async def test_one_line_says_what_came_of_a_request(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "retinue.http")

    answer = await call(RequestLog(Plain()), request_scope(headers={"X-Request-Id": "r-1"}))

    assert answer.headers["x-request-id"] == "r-1"
    [line] = caplog.messages
    assert re.fullmatch(r"http\.request method=POST path=/v1/runs status=200 ms=\d+ key=- request=r-1", line)


async def test_no_query_header_or_body_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    body = {"type": "http.request", "body": b'{"goal": "secret goal"}'}

    await call(RequestLog(Plain()), request_scope(headers=SECRETS), [body])

    assert "secret" not in caplog.text


async def test_a_path_cannot_forge_a_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "retinue.http")

    await call(RequestLog(Plain()), request_scope("GET", "/v1/x status=200\nhttp.request " + "y" * 500))

    [line] = caplog.messages
    assert "\n" not in line
    assert line.count("status=") == 1
    assert len(line) < 400


async def test_the_key_that_was_shown_is_named(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "retinue.http")

    async def known(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"]["caller"] = SimpleNamespace(key_id="ann smith\n")
        await Plain()(scope, receive, send)

    await call(RequestLog(known), request_scope())

    assert "key=ann%20smith%0A " in caplog.messages[0]


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_probes_that_go_well_make_no_noise(path: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "retinue.http")

    await call(RequestLog(Plain()), request_scope("GET", path))

    assert caplog.messages == []
