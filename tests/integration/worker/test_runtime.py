"""The runtime of a worker process while its lease is lost: it claims nothing and does not advertise."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.integration.broker.watch import Watch, until

from retinue.agents.registry.registry import Registry
from retinue.broker.app import create_app
from retinue.contract import SubagentState
from retinue.store import keys
from retinue.store.record import WakeUpKind
from retinue.testing.servers import PrivateServer
from retinue.worker.bootstrap import Prepared
from retinue.worker.pool.reports import ReceivedWakeUp, Succeeded
from retinue.worker.process.lease import Lease
from retinue.worker.runtime import WorkerRuntime

LEASE_S = 2.0


class Pool:
    """What a runtime needs of its pool."""

    limit = 2
    node_name = "w@host"

    def __init__(self) -> None:
        self.looked_again = 0

    def look_again(self) -> None:
        self.looked_again += 1

    def if_full(self, call: object) -> None:
        """It never is."""


@pytest.fixture
async def watch(fresh_store_url: str, store_server: PrivateServer) -> AsyncIterator[Watch]:
    """An empty store that is the broker as well."""
    server = store_server.client(decode_responses=True)
    watch = Watch(fresh_store_url, server, lease_seconds=LEASE_S, hang_seconds=LEASE_S)
    yield watch
    await watch.close()
    server.close()


@pytest.fixture
async def lease(watch: Watch) -> AsyncIterator[Lease]:
    """One that is held as long as the runtime's loop, and nobody else who once did, beats for it."""
    lease = Lease(watch.stage.process("w"), watch.url, lease_seconds=LEASE_S, hang_seconds=LEASE_S)
    lease.start()
    assert await asyncio.to_thread(lease.wait_held, 30)
    yield lease
    await asyncio.to_thread(lease.close)


async def test_without_its_lease_a_process_neither_claims_nor_advertises(
    watch: Watch, lease: Lease, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retinue.worker.runtime._ADVERTISE_EVERY_S", 0.02)
    monkeypatch.setattr("retinue.worker.runtime._BEAT_EVERY_S", 0.05)
    pool: Any = Pool()
    prepared = Prepared(lease.process_id, watch.settings, lease, Registry.from_objects())
    runtime = WorkerRuntime(create_app(watch.settings), pool, prepared)
    await runtime.start()
    [run] = await watch.queued(1, message=False, agent=watch.settings.delegation.default_agent_name)
    wakeup = ReceivedWakeUp(run.tenant, run.run_id, 1, WakeUpKind.DELEGATE, f"{run.run_id}.1")

    def advertised() -> bool:
        return watch.server.hexists(keys.WORKERS, lease.process_id)

    assert advertised()
    lease.beat("a part that hangs")
    await until(lease.lost.is_set)
    assert not runtime.takes_work

    assert await runtime.run(wakeup) == Succeeded("dropped: the lease is lost")
    assert (watch.stage.state(run), watch.stage.record(run).epoch) == (SubagentState.PENDING, 0)
    watch.server.hdel(keys.WORKERS, lease.process_id)
    with pytest.raises(TimeoutError):
        await until(advertised, 0.5)

    assert pool.looked_again == 0
    lease.retire("a part that hangs")
    await until(advertised)
    assert runtime.takes_work
    await until(lambda: pool.looked_again)
    await runtime.run(wakeup)
    assert watch.stage.record(run).epoch == 1
    await runtime.stop(0)


async def test_a_process_that_cannot_reach_the_store_keeps_its_work(lease: Lease, watch: Watch) -> None:
    pool: Any = Pool()
    prepared = Prepared(lease.process_id, watch.settings, lease, Registry.from_objects())
    runtime = WorkerRuntime(create_app(watch.settings), pool, prepared)
    lease.lost_reason = "store"
    lease.lost.set()
    assert runtime.takes_work
    lease.lost_reason = "vanished"
    assert not runtime.takes_work
    lease.lost.clear()
    assert runtime.takes_work
