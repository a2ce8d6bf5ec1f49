"""The stage of the store's contract: each test runs over both colours and over both servers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from tests.integration.store.audit import audit
from tests.integration.store.stage import AsyncRunner, Runner, Stage, SyncRunner

from retinue.testing.servers import PrivateServer


@pytest.fixture(scope="session", params=[SyncRunner, AsyncRunner], ids=["sync", "async"])
def runner(request: pytest.FixtureRequest, store_server: PrivateServer) -> Iterator[Runner]:
    """The store under test, over either link."""
    runner = request.param(store_server.url)
    yield runner
    runner.close()


@pytest.fixture(scope="session")
def behind_the_store(store_server: PrivateServer) -> redis.Redis:
    """The server as redis-py sees it; closed with the server."""
    return store_server.client(decode_responses=True)


@pytest.fixture
def stage(runner: Runner, behind_the_store: redis.Redis) -> Iterator[Stage]:
    """A fresh tenant; what it leaves behind must be consistent."""
    stage = Stage(runner, behind_the_store)
    yield stage
    left = stage.dump()
    stage.purge(left)
    audit(left, stage.tenant)
