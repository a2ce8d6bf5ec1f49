"""A store that Sentinel watches: links, subscriptions and the lease find the primary, also the next one."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress

import pytest
from tests.integration.store.stage import AsyncRunner, Runner, Stage, SyncRunner

from retinue.contract.errors import StoreUnavailableError
from retinue.store import keys
from retinue.store.connections.async_subscription import AsyncSubscriptions
from retinue.store.connections.link import AsyncLink
from retinue.store.connections.subscription import Subscriptions
from retinue.store.connections.sync_link import SyncLink
from retinue.store.replies import Stale
from retinue.testing.sentinels import SERVICE, SentinelCluster
from retinue.testing.servers import PrivateServer
from retinue.worker.process.lease import Lease

SOON_S = 30.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[SentinelCluster]:
    with SentinelCluster(replicas=2, password="of servers", sentinel_password="of sentinels") as cluster:
        yield cluster


def write(url: str, value: str, **options: float) -> tuple[bytes, bytes]:
    """What both colours of link read back after both have written."""
    sync = SyncLink(url, **options)  # pyright: ignore[reportArgumentType]

    async def both() -> tuple[bytes, bytes]:
        link = AsyncLink(url, **options)  # pyright: ignore[reportArgumentType]
        try:
            await link.execute("SET", "async", value)
            return await link.execute("GET", "sync"), await link.execute("GET", "async")
        finally:
            await link.close()

    try:
        sync.execute("SET", "sync", value)
        return asyncio.run(both())
    finally:
        sync.close()


def test_both_links_find_the_primary_though_a_sentinel_is_gone(cluster: SentinelCluster) -> None:
    # Nobody listens on port 1.
    url = cluster.url.replace("127.0.0.1", "127.0.0.1:1,127.0.0.1", 1)
    started = time.monotonic()
    assert write(url, "x", connect_timeout_s=90) == (b"x", b"x")
    assert time.monotonic() - started < SOON_S  # not after the time for connecting


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        (SERVICE, "another", "correct the service's name"),
        ("sentinel_password=of%20sentinels", "sentinel_password=no", "correct the user and the password"),
        (":of%20servers@", ":no@", "correct the user and the password"),
    ],
)
def test_what_is_wrong_in_the_url_is_told_from_an_outage(
    cluster: SentinelCluster, right: str, wrong: str, says: str
) -> None:
    url = cluster.url.replace(right, wrong)
    with pytest.raises(StoreUnavailableError, match=says) as caught:
        write(url, "x")
    assert caught.value.mend is not None
    assert "of%20" not in str(caught.value)


def test_who_is_connected_goes_on_at_the_new_primary(cluster: SentinelCluster) -> None:
    """One failover for all: links that are connected, waiters on both subscriptions, a worker's lease."""
    link, url = SyncLink(cluster.url, timeout_s=3), cluster.url
    process, lost = uuid.uuid4().hex, list[str]()
    lease = Lease(process, url, lease_seconds=1.0, on_lost=lost.append)
    subscriptions = Subscriptions(url, ping_every_s=0.5)

    async def both_wakes() -> None:
        waiters, watched = AsyncLink(url, timeout_s=3), AsyncSubscriptions(url, ping_every_s=0.5)
        # A message may come while one of them is not subscribed again yet: that is what the re-reads are for.
        with subscriptions.watch("news", "run") as sync_wake:
            async with watched.watch("news", "run") as async_wake:
                await asyncio.to_thread(cluster.failover, PrivateServer.pause)
                woken = [False, False]
                async with asyncio.timeout(SOON_S):
                    while not all(woken):
                        # Most sentinels may hear of the new primary later than the one that made it.
                        with suppress(StoreUnavailableError):
                            await waiters.execute("PUBLISH", "news", "run")
                        woken[0] = woken[0] or await asyncio.to_thread(sync_wake.wait, 0.1)
                        woken[1] = woken[1] or await async_wake.wait(0.1)
        await watched.close()
        await waiters.close()

    lease.start()
    try:
        assert lease.wait_held(SOON_S)
        link.execute("SET", "before", "x")
        old = cluster.primary
        asyncio.run(both_wakes())
        assert old is not cluster.primary
        # Its connection to the frozen server stood idle, so the first call may be the one that finds out.
        with suppress(StoreUnavailableError):
            link.execute("PING")
        cluster.wait_until(lambda: lease.held, "the lease is held again", SOON_S)
        assert link.execute("EXISTS", keys.lease(process)) == 1
        assert link.execute("ROLE")[0] == b"master"
        assert set(lost) <= {"store"}
        old.resume()
    finally:
        lease.close()
        subscriptions.close()
        link.close()


def test_a_demoted_primary_is_left_at_the_first_refusal(cluster: SentinelCluster) -> None:
    link = SyncLink(cluster.url)
    old = cluster.primary
    cluster.wait_until(lambda: cluster.all_name(old), "the sentinels do not agree")
    link.execute("SET", "x", "1")
    sentinel = SyncLink(f"redis://:of%20sentinels@127.0.0.1:{cluster.sentinel_ports[0]}")
    sentinel.execute("SENTINEL", "FAILOVER", SERVICE)
    new = cluster.wait_for_other_than(old)
    cluster.wait_until(lambda: cluster.all_name(new), "the sentinels do not agree")
    # What Sentinel does some seconds later, and then closes its connections.
    old.client().execute_command("REPLICAOF", "127.0.0.1", new.port)

    with suppress(StoreUnavailableError):
        link.execute("SET", "x", "2")
    link.execute("SET", "x", "3")

    assert new.client().get("x") == b"3"
    sentinel.close()
    link.close()


@pytest.mark.parametrize("colour", [SyncRunner, AsyncRunner])
def test_the_epoch_that_a_failover_repeats_lets_nobody_in_without_its_token(
    colour: type[Runner], store_server: PrivateServer
) -> None:
    """A claim that the replica never saw: there the next attempt gets the same epoch."""
    kind, at_once = store_server.kind, {"repl-diskless-sync-delay": "0"}
    with PrivateServer(kind, config=at_once) as primary, PrivateServer(kind) as replica:
        at_primary, at_replica = colour(primary.url), colour(replica.url)
        stage = Stage(at_primary, primary.client(decode_responses=True))
        run = stage.root()
        replica.client().execute_command("REPLICAOF", "127.0.0.1", primary.port)
        deadline = time.monotonic() + SOON_S
        while not replica.client().exists(run.record):
            assert time.monotonic() < deadline
        replica.client().execute_command("REPLICAOF", "NO", "ONE")

        lost = stage.claim(run, process="w1")
        stage.run = at_replica.run
        current = stage.claim(run, process="w2")
        assert lost.fence.epoch == current.fence.epoch

        for write in (lost.boundary(), lost.finish(), lost.hand_back()):
            assert isinstance(stage.run(write), Stale)
        assert not isinstance(stage.run(current.boundary()), Stale)
        at_primary.close()
        at_replica.close()
