from __future__ import annotations

import asyncio

import pytest
from tests.unit.http.asgi import Plain, call, request_scope

from retinue.broker.settings.http import HttpSettings
from retinue.http.middleware.faults import Faults
from retinue.http.middleware.host_check import HostCheck, is_allowed

LOOPBACK = [
    "localhost",
    "localhost:8580",
    "LOCALHOST.",
    "127.0.0.1",
    "127.0.0.1:1",
    "127.9.9.9",
    "[::1]:8580",
]
FOREIGN = [
    "evil.example",
    "evil.example:8580",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "10.0.0.7",
]


@pytest.mark.parametrize("host", LOOPBACK)
def test_on_a_loopback_address_its_own_names_are_good(host: str) -> None:
    assert is_allowed(host, HttpSettings())
    assert is_allowed(host, HttpSettings(host="::1"))
    assert is_allowed(host, HttpSettings(host="localhost"))


@pytest.mark.parametrize("host", [*FOREIGN, "", "[evil.example]", "[::1].evil.example"])
def test_on_a_loopback_address_no_other_name_is(host: str) -> None:
    assert not is_allowed(host, HttpSettings())


@pytest.mark.parametrize("host", FOREIGN)
def test_on_another_address_any_name_is_good_until_some_are_set(host: str) -> None:
    assert is_allowed(host, HttpSettings(host="0.0.0.0"))
    assert not is_allowed(host, HttpSettings(host="0.0.0.0", allowed_hosts=("api.example",)))


def test_further_names_are_set() -> None:
    settings = HttpSettings(allowed_hosts=("API.example",))

    assert is_allowed("api.example:443", settings)
    assert is_allowed("localhost", settings)
    assert not is_allowed("evil.example", settings)
    assert is_allowed("evil.example", HttpSettings(allowed_hosts=("*",)))


async def test_a_foreign_name_is_refused_with_its_mend() -> None:
    app = Plain()

    answer = await call(checked(app), request_scope(headers={"Host": "evil.example"}))

    assert answer.status == 421
    assert answer.problem["code"] == "HOST_NOT_ALLOWED"
    assert "http.allowed_hosts" in answer.problem["mend"]
    assert app.bodies == []


async def test_a_request_without_a_host_is_refused() -> None:
    assert (await call(checked(Plain()), request_scope())).status == 421


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_probes_may_call_the_server_by_any_name(path: str) -> None:
    answer = await call(checked(Plain()), request_scope("GET", path, {"Host": "10.0.0.7:8580"}))

    assert answer.status == 200


def checked(app: Plain) -> Faults:
    return Faults(HostCheck(app, HttpSettings()), asyncio.Event())
