"""The stage of the store's contract: each test runs over both colours and over both servers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.integration.store.stage import AsyncRunner, Runner, Stage, SyncRunner

from retinue.testing.servers import PrivateServer


@pytest.fixture(scope="session", params=[SyncRunner, AsyncRunner], ids=["sync", "async"])
def runner(request: pytest.FixtureRequest, store_server: PrivateServer) -> Iterator[Runner]:
    """The store under test, over either link."""
    runner = request.param(store_server.url)
    yield runner
    runner.close()


@pytest.fixture
def stage(runner: Runner, store_server: PrivateServer) -> Iterator[Stage]:
    """A fresh tenant; what it leaves behind must be consistent."""
    server = store_server.client(decode_responses=True)
    stage = Stage(runner, server)
    yield stage
    stage.audit()
    stage.purge()
    server.close()
