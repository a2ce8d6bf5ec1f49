from __future__ import annotations

import pytest

from retinue.broker.settings import Settings
from retinue.broker.settings.http import HttpSettings
from retinue.contract import SettingsError


def test_out_of_the_box_it_listens_for_this_machine_alone() -> None:
    http = Settings.read().http

    assert (http.host, http.port, http.allowed_hosts) == ("127.0.0.1", 8580, ())
    assert (http.max_body_bytes, http.max_json_depth) == (2 * 1024 * 1024, 64)
    assert (http.requests_per_minute, http.max_streams) == (6_000, 2_000)


def test_variables_set_its_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETINUE_HTTP__PORT", "9000")
    monkeypatch.setenv("RETINUE_HTTP__ALLOWED_HOSTS", "api.example, www.example")

    http = Settings.read().http

    assert http.port == 9000
    assert http.allowed_hosts == ("api.example", "www.example")


def test_the_link_that_kubernetes_makes_for_a_service_of_that_name_is_none_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RETINUE_HTTP_PORT", "tcp://10.0.0.7:8580")
    monkeypatch.setenv("RETINUE_HTTP_PORT_8580_TCP_ADDR", "10.0.0.7")

    assert Settings.read().http == HttpSettings()


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("port", 65_536),
        ("host", ""),
        ("max_body_bytes", 0),
        ("max_json_depth", 129),  # beyond what the parser itself can do
        ("request_timeout_seconds", 0),
        ("request_timeout_seconds", float("inf")),
        ("requests_per_minute", -1),
        ("stop_seconds", 0),
        ("prot", 1),
    ],
)
def test_a_wrong_member_is_named(member: str, value: object) -> None:
    with pytest.raises(SettingsError, match=f"http.{member}"):
        Settings.read(http={member: value})
