"""The application in this process, without a server: what it answers before any route is reached."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest

from retinue.broker.settings import Settings
from retinue.http import create_app
from retinue.http.service import Service
from retinue.store.operations.api_keys import Scope, draft_key
from retinue.testing.servers import PrivateServer


@pytest.fixture
async def http(valkey_server: PrivateServer) -> AsyncIterator[httpx2.AsyncClient]:
    """A client with a key of all scopes."""
    valkey_server.flush()
    app = create_app(Settings.read(store_url=valkey_server.url))
    service: Service = app.state.service
    issued, write = draft_key(tenant="_", scopes=tuple(Scope), name="test", expires_days=None)
    async with app.router.lifespan_context(app):
        await service.connections().store.run(write)
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app),
            base_url="http://127.0.0.1:8580",
            headers={"Authorization": f"Bearer {issued.text}"},
        ) as client:
            yield client


async def test_an_unknown_path_is_a_problem_with_all_headers(http: httpx2.AsyncClient) -> None:
    answer = await http.get("/v1/nowhere", headers={"X-Request-Id": "r-7"})

    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-request-id"] == "r-7"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.json() == {
        "type": "urn:retinue:problem:not-found",
        "title": "Not found",
        "status": 404,
        "detail": "there is nothing at this path",
        "code": "NOT_FOUND",
        "request_id": "r-7",
    }


async def test_a_wrong_method_says_which_are_right(http: httpx2.AsyncClient) -> None:
    answer = await http.delete("/v1/runs")

    assert (answer.status_code, answer.json()["code"]) == (405, "METHOD_NOT_ALLOWED")
    assert set(answer.headers["allow"].split(", ")) <= {"GET", "POST"}


async def test_a_page_of_another_origin_gets_no_leave(http: httpx2.AsyncClient) -> None:
    origin = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}

    asked = await http.options("/v1/runs", headers=origin)
    answered = await http.get("/v1/runs", headers=origin)

    assert asked.status_code == 405
    for answer in (asked, answered):
        assert not any(name.startswith("access-control") for name in answer.headers)


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json"])
async def test_nothing_is_served_that_loads_from_elsewhere(http: httpx2.AsyncClient, path: str) -> None:
    assert (await http.get(path)).status_code == 404


async def test_the_description_is_served_to_all(http: httpx2.AsyncClient) -> None:
    answer = await http.get("/v1/openapi.json", headers={"Authorization": ""})

    assert answer.status_code == 200
    assert answer.json()["info"]["title"] == "Retinue"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b'{"session_id": "s", "goal": "g", "metadata": {"x": NaN}}', 400, "MALFORMED_JSON"),
        (b'{"session_id": "s", "goal": "g", "metadata": {"x": 1e999}}', 422, "INVALID_REQUEST"),
        (b'{"session_id": "s", "goal": "\\ud800"}', 400, "MALFORMED_JSON"),
        (b'{"session_id": "s", "goal": "\xff"}', 400, "MALFORMED_JSON"),
        (b'{"session_id": "s", "goal": "\\u0000"}', 422, "INVALID_REQUEST"),
        (b"[" * 65 + b"]" * 65, 400, "JSON_TOO_DEEP"),
        (b"[]", 422, "INVALID_REQUEST"),
        (b"null", 422, "INVALID_REQUEST"),
        (b'"text"', 422, "INVALID_REQUEST"),
        (b"", 422, "INVALID_REQUEST"),
    ],
)
async def test_a_bad_body_is_refused(http: httpx2.AsyncClient, body: bytes, status: int, code: str) -> None:
    answer = await http.post("/v1/runs", content=body, headers={"Content-Type": "application/json"})

    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text


async def test_a_store_that_is_silent_is_no_fault_of_the_caller() -> None:
    app = create_app(Settings.read(store_url="redis://127.0.0.1:1/0", store_timeout_seconds=0.5))
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1:8580"
    ) as client:
        answer = await client.get("/v1/runs", headers={"Authorization": "Bearer rtn_x"})

    assert (answer.status_code, answer.json()["code"]) == (503, "STORE_UNAVAILABLE")
    assert answer.headers["retry-after"]
