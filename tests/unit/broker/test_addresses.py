"""How an address is spelt for redis-py and for kombu, each of which must be able to read it."""

from __future__ import annotations

import ssl

import pytest
from kombu.connection import Connection
from redis.connection import parse_url

from retinue.broker.addresses import for_kombu, for_links, for_redis, place, sentinel_options
from retinue.store.connections.sentinel_urls import SentinelAddress
from retinue.store.connections.urls import ServerAddress

URLS = [
    "redis://",
    "valkey://me:p%40ss@db:7000/3",
    "redis://[::1]:7000?db=4",
    "redis://db/1?username=me&password=p%40ss",
    "valkeys://db/1?ssl_ca_certs=%2Fetc%2Fca.pem",
    "unix://:p%40ss@/run/a%20b.sock?db=2",
    "redis+socket://me:pw@/run/v.sock?virtual_host=5",
    "redis://db/1?socket_timeout=3&heartbeat=10",
]


@pytest.mark.parametrize("url", URLS)
def test_redis_py_finds_server_database_and_credentials(url: str) -> None:
    address = ServerAddress.parse(url)
    read = parse_url(for_redis(address))
    assert (read.get("host", ""), read.get("port", 0), read.get("path")) == (
        address.host,
        address.port,
        address.path,
    )
    assert (read["db"], read.get("username"), read.get("password")) == (
        address.db,
        address.username,
        address.password,
    )


@pytest.mark.parametrize("url", [url for url in URLS if ".sock" not in url])
def test_kombu_finds_server_database_and_credentials(url: str) -> None:
    address = ServerAddress.parse(url)
    read = Connection(for_kombu(address))
    assert (read.hostname, read.port) == (address.host, address.port)
    assert (read.virtual_host, read.userid, read.password) == (
        str(address.db),
        address.username,
        address.password,
    )


@pytest.mark.parametrize("url", URLS)
def test_both_spellings_mean_the_same_address(url: str) -> None:
    address = ServerAddress.parse(url)
    for spelt in (for_redis(address), for_kombu(address)):
        again = ServerAddress.parse(spelt)
        assert place(again) == place(address)
        assert (again.username, again.password, again.tls) == (
            address.username,
            address.password,
            address.tls,
        )


def test_each_library_gets_the_options_it_takes() -> None:
    address = ServerAddress.parse("redis://db/1?socket_timeout=3&heartbeat=10")
    assert for_redis(address) == "redis://db:6379/1?socket_timeout=3"
    assert for_kombu(address) == "redis://db:6379/1?heartbeat=10"


def test_kombu_is_told_how_to_check_the_certificate_whatever_the_spelling() -> None:
    url = "rediss://db?ssl_cert_reqs=cert_none&ssl_check_hostname=no&ssl_ca_certs=/etc/ca.pem"
    assert Connection(for_kombu(ServerAddress.parse(url))).ssl == {
        "ssl_cert_reqs": ssl.CERT_NONE,
        "ssl_check_hostname": False,
        "ssl_ca_certs": "/etc/ca.pem",
    }


SENTINELS = "sentinel://me:p%2Fw@h1:1,h2/shop/3?sentinel_password=other"


def test_kombu_finds_the_sentinels_the_service_and_the_credentials_whichever_url_it_turns_to() -> None:
    address = SentinelAddress.parse(SENTINELS)
    options = sentinel_options(address)
    connection = Connection(for_kombu(address), transport_options=options)
    for host, port in (("h1", 1), ("h2", 26379)):
        info = connection.info()
        assert (info["transport"], info["hostname"], info["port"]) == ("sentinel", host, port)
        assert (info["userid"], info["password"], info["virtual_host"]) == ("me", "p/w", "3")
        connection.switch(connection.alt[-1])
    assert connection.transport_options == options
    assert options["master_name"] == "shop"
    assert options["sentinel_kwargs"]["password"] == "other"


def test_the_sentinels_without_a_password_are_sent_none() -> None:
    asking = sentinel_options(SentinelAddress.parse("sentinel://:pw@h1/shop"))["sentinel_kwargs"]
    assert "password" not in asking


def test_links_get_a_url_that_they_read_as_the_same() -> None:
    assert for_links(SentinelAddress.parse(SENTINELS)) == SENTINELS.replace("h2/", "h2:26379/")
    assert for_links(ServerAddress.parse("valkey://db?heartbeat=1")) == "redis://db:6379/0"


def test_the_same_sentinels_in_another_order_are_one_place() -> None:
    one, other = (
        SentinelAddress.parse(f"sentinel://{hosts}/shop/1") for hosts in ("h1,H2:26379", "h2,h1:26379")
    )
    assert place(one) == place(other)
    assert place(one) != place(SentinelAddress.parse("sentinel://h1,h2/shop/2"))
    assert place(one) != place(SentinelAddress.parse("sentinel://h1,h2/other/1"))
