"""The start-up check against real servers, each wrong in one way."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Iterator
from urllib.parse import quote

import pytest

from retinue.broker.server.checks import _report as report_from  # the pure half: no old server is at hand
from retinue.broker.server.checks import check_server, require_server
from retinue.broker.server.durability import Durability
from retinue.broker.server.report import ServerDurability, ServerReport, Severity
from retinue.contract.errors import SettingsError, StoreUnavailableError
from retinue.testing.servers import PrivateServer, ServerKind, server_binary

SECRET = "s3cret-value"
SOUND = {"appendonly": "yes", "appendfsync": "everysec"}


@pytest.fixture(params=[kind.value for kind in ServerKind])
def kind(request: pytest.FixtureRequest) -> str:
    if server_binary(ServerKind(request.param)) is None:
        pytest.skip(f"no {request.param} server on this machine")
    return request.param


@pytest.fixture
def server_with(kind: str) -> Iterator[Callable[..., PrivateServer]]:
    servers: list[PrivateServer] = []

    def start(**options: object) -> PrivateServer:
        servers.append(PrivateServer(kind, **options))  # type: ignore[arg-type]
        return servers[-1].start()

    yield start
    for server in servers:
        server.close()


def _only_error(report: ServerReport) -> str:
    assert len(report.errors) == 1
    return str(report.errors[0])


def test_a_sound_server_has_no_problem(kind: str, server_with: Callable[..., PrivateServer]) -> None:
    report = require_server(server_with(password=SECRET, config=SOUND).url)
    assert report.reachable
    assert (report.product, report.role, report.mode) == (kind, "master", "standalone")
    assert report.version.split(".")[0] in ("7", "8", "9")
    assert (report.maxmemory_policy, report.replicas) == ("noeviction", 0)
    assert report.durability is ServerDurability.EVERYSEC
    assert report.problems == ()
    assert SECRET not in repr(report)


def test_an_eviction_policy_is_an_error_with_the_command_that_mends_it(
    server_with: Callable[..., PrivateServer],
) -> None:
    server = server_with(config=SOUND | {"maxmemory-policy": "allkeys-lru"})
    with pytest.raises(SettingsError, match=r"allkeys-lru.*CONFIG SET maxmemory-policy noeviction") as caught:
        require_server(server.url)
    assert caught.value.setting == "store_url"
    server.client().config_set("maxmemory-policy", "noeviction")
    assert require_server(server.url).problems == ()


@pytest.mark.parametrize(
    ("config", "durability"),
    [
        ({"appendonly": "no"}, ServerDurability.NONE),
        ({"appendonly": "no", "save": "60 1"}, ServerDurability.NONE),
        ({"appendonly": "yes", "appendfsync": "no"}, ServerDurability.NONE),
        ({"appendonly": "yes", "appendfsync": "everysec"}, ServerDurability.EVERYSEC),
        ({"appendonly": "yes", "appendfsync": "always"}, ServerDurability.STRICT),
        (
            {"appendonly": "yes", "appendfsync": "always", "no-appendfsync-on-rewrite": "yes"},
            ServerDurability.EVERYSEC,
        ),
    ],
)
def test_durability_is_read_from_the_configuration(
    config: dict[str, str], durability: ServerDurability, server_with: Callable[..., PrivateServer]
) -> None:
    url = server_with(config=config).url
    report = check_server(url)
    assert report.durability is durability
    warned = durability is ServerDurability.NONE
    assert [problem.severity for problem in report.problems] == [Severity.WARNING] * warned
    strict = check_server(url, durability=Durability.STRICT)
    assert bool(strict.errors) is (durability is not ServerDurability.STRICT)


def test_strict_durability_refuses_a_laxer_server(
    server_with: Callable[..., PrivateServer],
) -> None:
    url = server_with(config=SOUND).url
    with pytest.raises(SettingsError, match=r"the server's is everysec.*appendfsync always"):
        require_server(url, durability=Durability.STRICT)


def test_a_server_that_forbids_config_is_unknown_and_no_error(
    server_with: Callable[..., PrivateServer], caplog: pytest.LogCaptureFixture
) -> None:
    server = server_with(config={"maxmemory-policy": "allkeys-lru"})
    server.client().acl_setuser(
        "app", enabled=True, passwords=[f"+{SECRET}"], categories=["+@all"], commands=["-config"], keys=["*"]
    )
    url = f"redis://app:{SECRET}@127.0.0.1:{server.port}/0"
    # The policy is in INFO as well.
    assert "allkeys-lru" in _only_error(check_server(url))
    server.client().config_set("maxmemory-policy", "noeviction")
    report = require_server(url)
    assert report.durability is ServerDurability.UNKNOWN
    assert report.problems == ()
    with caplog.at_level(logging.WARNING):
        require_server(url, durability=Durability.STRICT)
    assert "does not let CONFIG be read" in caplog.text
    assert SECRET not in caplog.text


def test_a_user_that_may_not_read_info_is_told_so(server_with: Callable[..., PrivateServer]) -> None:
    server = server_with()
    server.client().acl_setuser(
        "app", enabled=True, passwords=[f"+{SECRET}"], categories=["+@all"], commands=["-info"], keys=["*"]
    )
    report = check_server(f"redis://app:{SECRET}@127.0.0.1:{server.port}/0")
    assert report.reachable
    assert "refused INFO" in _only_error(report)


def test_a_replica_is_refused_and_its_primary_counts_it(server_with: Callable[..., PrivateServer]) -> None:
    primary, replica = server_with(appendonly=True), server_with(appendonly=True)
    replica.client().replicaof("127.0.0.1", primary.port)
    with pytest.raises(SettingsError, match=r"is a replica.*name its primary"):
        require_server(replica.url)
    deadline = time.monotonic() + 20
    while check_server(primary.url).replicas != 1:
        assert time.monotonic() < deadline, "the replica never came"
        time.sleep(0.05)


def test_a_server_in_cluster_mode_is_refused(server_with: Callable[..., PrivateServer]) -> None:
    with socket.socket() as probe:
        # By default it is the server's port + 10,000, which may be more than there are.
        probe.bind(("127.0.0.1", 0))
        bus = str(probe.getsockname()[1])
    server = server_with(appendonly=True, config={"cluster-enabled": "yes", "cluster-port": bus})
    assert "cluster mode" in _only_error(check_server(server.url))


@pytest.mark.parametrize("password", ["", ":wr0ng-value@"])
def test_a_refused_password_is_an_error_of_the_settings(
    password: str, server_with: Callable[..., PrivateServer]
) -> None:
    server = server_with(password=SECRET)
    url = f"redis://{password}127.0.0.1:{server.port}/0"
    assert check_server(url).reachable
    with pytest.raises(SettingsError, match="refused the user or the password") as caught:
        require_server(url, setting="broker_url")
    assert caught.value.setting == "broker_url"
    assert "wr0ng-value" not in str(caught.value)


def test_a_unix_socket_is_checked_in_both_spellings(server_with: Callable[..., PrivateServer]) -> None:
    server = server_with(config=SOUND, unix_socket=True, password="p@ss")
    path = server.unix_url.partition("@")[2].partition("?")[0]
    password = quote("p@ss")
    assert require_server(f"unix://:{password}@{path}?db=0").problems == ()
    assert require_server(f"redis+socket://:{password}@{path}?virtual_host=0").problems == ()


def test_a_closed_port_is_unavailable_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"redis://:{SECRET}@127.0.0.1:{taken.getsockname()[1]}/0"
        started = time.monotonic()
        with pytest.raises(StoreUnavailableError, match="no server answers at redis://:") as caught:
            require_server(url, timeout_s=120)
    assert time.monotonic() - started < 30  # not after the limit
    assert SECRET not in str(caught.value)
    assert not check_server(url).reachable


def test_a_frozen_server_is_unavailable_within_the_limit(server_with: Callable[..., PrivateServer]) -> None:
    server = server_with()
    server.pause()
    started = time.monotonic()
    with pytest.raises(StoreUnavailableError):
        require_server(server.url, timeout_s=1)
    assert time.monotonic() - started < 20  # by itself it would not end
    server.resume()
    assert require_server(server.url).reachable


def test_a_url_of_no_server_is_an_error_of_the_settings() -> None:
    with pytest.raises(SettingsError, match="must start with one of redis://"):
        require_server("amqp://localhost")


@pytest.mark.parametrize(
    ("info", "refused"),
    [
        ({"redis_version": "6.2.14"}, True),
        ({"redis_version": "7.0.0"}, False),
        ({"redis_version": "10.0.1"}, False),
        ({"redis_version": "6.2.0", "valkey_version": "7.2.5"}, False),
        ({}, True),
    ],
)
def test_a_server_older_than_script_flags_is_refused(info: dict[str, str], refused: bool) -> None:
    report = report_from("redis://old", {"role": "master", **info}, None, Durability.EVERYSEC)
    assert [("lacks script flags" in problem.message) for problem in report.errors] == [True] * refused


def test_a_database_that_is_not_there_is_told_by_its_number(
    server_with: Callable[..., PrivateServer],
) -> None:
    url = server_with(appendonly=True).url.replace("/0", "/9999")
    with pytest.raises(SettingsError, match=r"no database 9999.*correct the database number"):
        require_server(url)
