"""URLs of a store that Sentinel watches: what each part means, and what is refused."""

from __future__ import annotations

import pytest

from retinue.contract.errors import SettingsError
from retinue.store.connections.sentinel_urls import SentinelAddress, names_store, parse_store_url
from retinue.store.connections.urls import ServerAddress, without_password

ONE = (("h1", 26379),)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("sentinel://h1/shop", SentinelAddress("shop", ONE)),
        ("sentinel://h1:1,h2,h3:3/shop/4", SentinelAddress("shop", (("h1", 1), ("h2", 26379), ("h3", 3)), 4)),
        ("sentinel://[::1]:1,[fe80::2]/shop", SentinelAddress("shop", (("::1", 1), ("fe80::2", 26379)))),
        ("sentinel://:p%2Fw@h1/shop/0", SentinelAddress("shop", ONE, password="p/w")),
        ("sentinel://me:pw@h1/shop/", SentinelAddress("shop", ONE, username="me", password="pw")),
        ("sentinel://h1/0/0", SentinelAddress("0", ONE)),
        (
            "sentinel://h1/shop?sentinel_username=s&sentinel_password=%2Fp",
            SentinelAddress("shop", ONE, sentinel_username="s", sentinel_password="/p"),
        ),
    ],
)
def test_a_url_names_sentinels_service_database_and_credentials(url: str, expected: SentinelAddress) -> None:
    address = parse_store_url(url)
    assert address == expected
    assert isinstance(address, SentinelAddress)
    assert parse_store_url(address.url) == expected
    assert names_store(url)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("sentinel://:hunter2@h1:1;sentinel://:hunter2@h2:1", "separates its sentinels by `;`"),
        ("sentinel://:hunter2@h1", "must name the service"),
        ("sentinel://:hunter2@h1/0", "must name the service"),
        ("sentinel://:hunter2@h1/my shop", "must name the service"),
        ("sentinel://:hunter2@h1/shop/first", "database must be a number"),
        ("sentinel://:hunter2@h1:port/shop", "sentinels cannot be read"),
        ("sentinel://:hunter2@h1:70000/shop", "sentinels cannot be read"),
        ("sentinel://:hunter2@h1,/shop", "sentinels cannot be read"),
        ("sentinel://:hunter2@/shop", "sentinels cannot be read"),
        ("sentinel://h1/shop?password=hunter2", "takes no parameter password"),
    ],
)
def test_a_url_that_cannot_be_read_is_refused_with_the_mend_and_without_its_password(
    url: str, says: str
) -> None:
    with pytest.raises(SettingsError, match=says) as caught:
        parse_store_url(url)
    assert "To mend" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in without_password(url)


def test_the_passwords_are_in_no_text_of_an_address() -> None:
    address = SentinelAddress.parse("sentinel://me:hunter2@h1,h2:1/shop/3?sentinel_password=hunter2")
    assert "hunter2" not in f"{address} {address!r} {without_password(address.url)}"
    assert str(address) == "shop of the sentinels h1:26379, h2:1 db 3"


def test_the_credentials_of_the_servers_are_not_those_of_the_sentinels() -> None:
    address = SentinelAddress.parse("sentinel://me:pw@h1/shop/3?sentinel_password=other")
    assert address.server_at("db", 7000) == ServerAddress("db", 7000, db=3, username="me", password="pw")
    assert address.sentinel_servers == (ServerAddress("h1", 26379, password="other"),)
