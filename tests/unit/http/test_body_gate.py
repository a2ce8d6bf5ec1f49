from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message
from tests.unit.http.asgi import Answer, Plain, body_messages, call, request_scope

from retinue.broker.settings.http import HttpSettings
from retinue.http.middleware.body_gate import BodyGate
from retinue.http.middleware.faults import Faults

JSON = {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}
LIMITS = HttpSettings(max_body_bytes=1_024, max_json_depth=8, request_timeout_seconds=0.2)


async def passed(*parts: bytes, headers: dict[str, str] = JSON, method: str = "POST") -> tuple[Answer, Plain]:
    app = Plain()
    gate = Faults(BodyGate(app, LIMITS), asyncio.Event())
    return await call(gate, request_scope(method, headers=headers), body_messages(*parts)), app


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        'application/json;charset="UTF-8"',
    ],
)
async def test_json_is_handed_on_whole(content_type: str) -> None:
    answer, app = await passed(b'{"a":', b" 1}", headers={**JSON, "Content-Type": content_type})

    assert answer.status == 200
    assert app.bodies == [b'{"a": 1}']


async def test_after_the_body_it_is_told_that_the_caller_has_gone() -> None:
    _, app = await passed(b"{}")

    assert app.after == {"type": "http.disconnect"}


@pytest.mark.parametrize("headers", [{}, {"Content-Length": "0"}])
async def test_a_request_without_a_body_needs_no_type(headers: dict[str, str]) -> None:
    answer, app = await passed(headers=headers, method="GET")

    assert (answer.status, app.bodies) == (200, [b""])


async def test_an_empty_body_needs_no_type_either() -> None:
    answer, _ = await passed(b"", headers={"Transfer-Encoding": "chunked"})

    assert answer.status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "multipart/form-data; boundary=application/json"},
        {"Content-Type": "application/json; charset=latin-1"},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
    ],
)
async def test_what_is_not_marked_as_json_is_refused(headers: dict[str, str]) -> None:
    answer, app = await passed(b"{}", headers={"Transfer-Encoding": "chunked", **headers})

    assert answer.status == 415
    assert answer.problem["code"] == "UNSUPPORTED_MEDIA_TYPE"
    assert app.bodies == []


async def test_what_is_no_json_is_refused() -> None:
    answer, app = await passed(b"{oops")

    assert (answer.status, answer.problem["code"], app.bodies) == (400, "MALFORMED_JSON", [])


async def test_what_is_nested_too_deeply_is_refused() -> None:
    answer, _ = await passed(b"[" * 9 + b"]" * 9)

    assert (answer.status, answer.problem["code"]) == (400, "JSON_TOO_DEEP")


async def test_an_announced_length_is_refused_before_anything_is_read() -> None:
    asked = 0

    async def receive() -> Message:
        nonlocal asked
        asked += 1
        return {"type": "http.disconnect"}

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)
        if message["type"] == "http.response.start":
            assert asked == 0

    scope = request_scope(headers={**JSON, "Content-Length": "1025"})
    await BodyGate(Plain(), LIMITS)(scope, receive, send)

    assert sent[0]["status"] == 413
    assert (b"connection", b"close") in sent[0]["headers"]


async def test_a_body_of_the_longest_length_passes() -> None:
    longest = b'"' + b"x" * 1_022 + b'"'

    answer, app = await passed(longest, headers={**JSON, "Content-Length": "1024"})

    assert (answer.status, app.bodies) == (200, [longest])


async def test_a_longer_one_without_a_length_is_refused_as_it_comes() -> None:
    answer, app = await passed(*[b"x" * 100] * 11)

    assert (answer.status, app.bodies) == (413, [])
    assert answer.problem["limit"] == "1024 bytes"
    assert answer.headers["connection"] == "close"


async def test_a_refused_caller_may_send_on_for_a_while() -> None:
    left = body_messages(*[b"x" * 600] * 20)

    async def receive() -> Message:
        return left.pop(0) if left else {"type": "http.disconnect"}

    when_answered: list[int] = []

    async def send(message: Message) -> None:
        when_answered.append(len(left))

    await BodyGate(Plain(), LIMITS)(request_scope(headers=JSON), receive, send)

    # The answer left at once; the connection is given up only after the rest was taken in.
    assert when_answered == [18, 18, 0]


async def test_a_body_that_does_not_come_is_given_up() -> None:
    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await BodyGate(Plain(), LIMITS)(request_scope(headers=JSON), receive, send)

    assert sent[0]["status"] == 408


async def test_a_caller_who_leaves_within_the_body_gets_no_answer() -> None:
    app = Plain()

    answer = await call(
        BodyGate(app, LIMITS),
        request_scope(headers=JSON),
        [{"type": "http.request", "body": b"{", "more_body": True}],
    )

    assert (answer.status, app.bodies) == (0, [])
