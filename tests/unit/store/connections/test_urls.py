"""Which server URLs are understood, and that none gives its password away."""

import ssl

import pytest

from retinue.contract.errors import SettingsError
from retinue.store.connections.urls import ServerAddress, without_password


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://", ServerAddress("localhost", 6379)),
        ("redis://10.0.0.5", ServerAddress("10.0.0.5", 6379)),
        ("redis://db:7000/3", ServerAddress("db", 7000, db=3)),
        ("redis://db:7000?db=4", ServerAddress("db", 7000, db=4)),
        ("redis://db?username=me&password=pw", ServerAddress("db", 6379, username="me", password="pw")),
        ("redis://db?heartbeat=10", ServerAddress("db", 6379, options=(("heartbeat", "10"),))),
        ("valkey://[::1]:7000/1", ServerAddress("::1", 7000, db=1)),
        ("redis://:s%2Fecret@db/0", ServerAddress("db", 6379, password="s/ecret")),
        ("redis://me:pw@db", ServerAddress("db", 6379, username="me", password="pw")),
        ("unix:///run/valkey.sock", ServerAddress("", 0, "/run/valkey.sock")),
        ("unix://me:pw@/run/v.sock?db=2", ServerAddress("", 0, "/run/v.sock", 2, "me", "pw")),
        ("redis+socket:///run/v.sock?virtual_host=5", ServerAddress("", 0, "/run/v.sock", 5)),
    ],
)
def test_a_url_names_the_server_the_database_and_the_credentials(url: str, expected: ServerAddress):
    assert ServerAddress.parse(url) == expected


def test_a_tls_url_checks_the_certificate_unless_told_otherwise():
    strict = ServerAddress.parse("rediss://db").tls
    assert strict is not None
    assert strict.context().verify_mode is ssl.CERT_REQUIRED
    assert strict.context().check_hostname
    for lax in ("none", "CERT_NONE"):
        tls = ServerAddress.parse(f"rediss://db?ssl_cert_reqs={lax}").tls
        assert tls is not None
        assert tls.context().verify_mode is ssl.CERT_NONE
    assert ServerAddress.parse("redis://db").tls is None


@pytest.mark.parametrize(
    "url",
    [
        "http://:hunter2@db",
        "redis://:hunter2@db/first",
        "redis://user:hunter2/with/slashes@db:6379/0",
        "redis://:hunter2@db:port/0",
        "unix://:hunter2@",
        "rediss://:hunter2@db?ssl_cert_reqs=perhaps",
    ],
)
def test_a_url_that_cannot_be_read_is_refused_without_its_password(url: str):
    with pytest.raises(SettingsError) as caught:
        ServerAddress.parse(url)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__context__ is None
    assert "To mend" in str(caught.value)
    assert "hunter2" not in without_password(url)


def test_the_password_is_in_no_text_of_an_address():
    address = ServerAddress.parse("redis://me:hunter2@db:7000/3")
    assert "hunter2" not in f"{address} {address!r}"
    assert str(address) == "db:7000 db 3"
