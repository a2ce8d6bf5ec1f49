"""A failover under load: the primary's machine is lost, or freezes and comes back as a replica."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import cast

import pytest
from tests.acceptance.faults.failover_load import FailoverLoad
from tests.acceptance.run_rig import DEADLINE_S, RunRig
from tests.acceptance.tree_script import script_tree

from retinue.contract import ErrorCode, SubagentLifecycleError
from retinue.testing.scripted_server import ScriptedServer
from retinue.testing.sentinels import SentinelCluster
from retinue.testing.servers import PrivateServer, ServerKind, server_binary

REPLICAS = 3
"""Two tests kill their primary, and the last needs a replica that acknowledges what is written after."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[SentinelCluster]:
    redis = server_binary(ServerKind.REDIS) is not None
    with SentinelCluster(
        ServerKind.REDIS if redis else ServerKind.VALKEY,
        replicas=REPLICAS,
        password="s3cret/ of@servers",
        sentinel_password="of sentinels",
        config={"appendfsync": "always"},
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def rig(cluster: SentinelCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    """A worker of each durability; what each has begun, the other goes on with."""
    with ExitStack() as stack:
        model = stack.enter_context(ScriptedServer(latency_s=0.02))
        script_tree(model)
        # A rig asks its server for a URL and for clients, which a cluster has too.
        server = cast("PrivateServer", cluster)
        rig = RunRig(server, model, tmp_path_factory.mktemp("sentinel"), stack, agents="tree_agents")
        levels = ("everysec", "strict")
        workers = [
            rig.worker(ready=False, concurrency=20, settings={"durability": level}) for level in levels
        ]
        for worker in workers:
            worker.wait_until_ready(DEADLINE_S)
        yield rig


def clients_of_ours(server: PrivateServer) -> set[str]:
    """The names of the product's connections to a server."""
    listed = server.client(decode_responses=True).client_list()
    return {client["name"] for client in listed if client["name"].startswith("retinue")}


def test_a_lost_machine_costs_at_most_the_launches_that_the_replicas_had_not_seen(
    cluster: SentinelCluster, rig: RunRig
) -> None:
    def lose(primary: PrivateServer) -> None:
        primary.kill()
        cluster.sentinels[0].close()

    with FailoverLoad(rig, "lost") as load:
        load.wait_for_launches(10)
        before = len(load.launched)
        cluster.failover(lose)
        load.wait_for_launches(10)

    lost = load.check()

    # What was not replicated in the instant of the kill, and nothing older.
    assert set(lost) <= set(load.launched[before - 1 : before + 2])


def test_a_frozen_primary_that_wakes_up_as_a_replica_is_written_to_by_nobody(
    cluster: SentinelCluster, rig: RunRig
) -> None:
    with FailoverLoad(rig, "frozen") as load:
        load.wait_for_launches(10)
        old = cluster.primary
        cluster.failover(PrivateServer.pause)
        load.wait_for_launches(10)
        old.resume()
        cluster.wait_until(lambda: cluster.follows(old), "the old primary follows the new one")
        load.wait_for_launches(5)

    load.check()

    rig.wait_until(lambda: clients_of_ours(old) == set(), "nobody is connected to the replica")


def test_strict_durability_loses_no_launch_in_a_failover(cluster: SentinelCluster, rig: RunRig) -> None:
    with FailoverLoad(rig, "strict", durability="strict") as load:
        load.wait_for_launches(10)
        cluster.failover()
        load.wait_for_launches(10)

    assert load.check() == []

    # The primary alone is not enough: it says so, and goes on once a replica is there.
    with (
        cluster.replicas_paused(),
        pytest.raises(SubagentLifecycleError, match="no replica acknowledged") as failed,
    ):
        load.lifecycle.launch(agent="level4", goal="alone")
    assert failed.value.code is ErrorCode.LAUNCH_UNKNOWN
    assert failed.value.handle is not None
    assert rig.result(load.lifecycle, failed.value.handle).summary == "wrote alone"
