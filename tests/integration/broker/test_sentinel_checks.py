"""The start-up check, and what the doctor says, where Sentinel watches the store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from retinue.broker.server.checks import check_server, require_server
from retinue.broker.server.durability import Durability
from retinue.broker.server.report import SentinelFacts, ServerDurability, ServerReport
from retinue.cli.doctor.durability_text import durability_text
from retinue.contract.errors import SettingsError, StoreUnavailableError
from retinue.testing.sentinels import SERVICE, SentinelCluster
from retinue.testing.servers import PrivateServer


@pytest.fixture(scope="module")
def cluster() -> Iterator[SentinelCluster]:
    with SentinelCluster(password="of servers", sentinel_password="of sentinels") as cluster:
        yield cluster


def messages(report: ServerReport) -> list[str]:
    return [problem.message for problem in report.problems]


def test_the_primary_is_looked_at_and_what_the_sentinels_know_is_told(cluster: SentinelCluster) -> None:
    cluster.primary.client().config_set("min-replicas-to-write", 1)
    report = require_server(cluster.url)

    assert (report.role, report.replicas, report.min_replicas) == ("master", 1, 1)
    assert report.durability is ServerDurability.EVERYSEC
    assert report.sentinels == SentinelFacts(SERVICE, named=3, answered=3, watching=3, quorum=2, replicas=1)
    assert report.problems == ()
    text = durability_text(report, Durability.EVERYSEC)
    assert "of its machine the last second" in text
    assert "1 replica connected, min-replicas-to-write 1: a failover loses what they had not seen yet" in text
    assert f"3 of 3 sentinels answer for {SERVICE}: 3 watch it, quorum 2, 1 replicas known" in text
    assert "of%20" not in report.url


def test_a_primary_that_would_go_on_alone_is_warned_of_unless_replicas_acknowledge(
    cluster: SentinelCluster,
) -> None:
    client = cluster.primary.client()
    client.config_set("min-replicas-to-write", 0)
    (warned,) = messages(check_server(cluster.url))
    assert "a primary that is cut off goes on taking writes" in warned

    with pytest.raises(SettingsError, match="durability is strict, but the server's is everysec"):
        require_server(cluster.url, durability=Durability.STRICT)
    client.config_set("appendfsync", "always")
    report = require_server(cluster.url, durability=Durability.STRICT)
    client.config_set("appendfsync", "everysec")
    assert report.problems == ()
    assert "counts once one of them has it" in durability_text(report, Durability.STRICT)


def test_sentinels_that_are_away_and_a_missing_replica_are_told(cluster: SentinelCluster) -> None:
    replica = next(server for server in cluster.servers if cluster.follows(server))
    replica.kill()
    cluster.wait_until(lambda: check_server(cluster.url).replicas == 0, "the replica is missed")
    url = cluster.url.replace("127.0.0.1", "127.0.0.1:1,127.0.0.1", 1)  # nobody listens there

    said = messages(check_server(url))

    assert "1 of the 4 sentinels in the URL did not answer" in said
    assert "no replica is connected to the primary, so none can take over" in said


def test_a_service_that_nobody_watches_is_refused_with_the_mend() -> None:
    with SentinelCluster(replicas=0, sentinels=1) as alone:
        said = messages(check_server(alone.url))
        assert any("1 sentinel(s) watch" in message for message in said)
        with pytest.raises(StoreUnavailableError, match="correct the service's name"):
            require_server(alone.url.replace(SERVICE, "another"))
        report = check_server(alone.url.replace(SERVICE, "another"))
        assert (report.reachable, report.sentinels and report.sentinels.answered) == (False, 0)


def test_a_server_on_its_own_says_what_its_crash_loses(fresh_store_url: str) -> None:
    text = durability_text(check_server(fresh_store_url), Durability.EVERYSEC)
    assert (
        text == "none: the server syncs nothing: its crash loses whatever its last snapshot lacks; no replica"
    )
    with PrivateServer(appendonly=True, config={"appendfsync": "always"}) as server:
        strict = durability_text(check_server(server.url), Durability.STRICT)
    assert strict.startswith("strict: the server syncs each write before it answers")
