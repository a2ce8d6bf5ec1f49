"""Pytest fixtures for agents on Retinue: servers, a scripted model, workers, clients.

Pytest loads this module at each start wherever Retinue is installed. So it stands outside the package
`retinue.testing`, which needs what only the extra `worker` brings, and imports that when a fixture is used.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from retinue.testing.clients import LifecycleFactory
    from retinue.testing.scripted_server import ScriptedServer
    from retinue.testing.servers import PrivateServer
    from retinue.testing.workers import WorkerFactory


@pytest.fixture(scope="session", params=["valkey", "redis"])
def store_server(request: pytest.FixtureRequest) -> Iterator[PrivateServer]:
    """A private server; a test that uses it runs once with Valkey and once with Redis.

    Where one of the two is not installed its tests are skipped, except in CI, where they fail.
    """
    yield from _private_server(request.param)


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[PrivateServer]:
    """A private Valkey, for tests that need a store but would learn nothing from a second kind."""
    yield from _private_server("valkey")


@pytest.fixture
def fresh_store_url(store_server: PrivateServer) -> str:
    """Address of an empty store, once a Valkey and once a Redis."""
    store_server.flush()
    return store_server.url


@pytest.fixture
def valkey_url(valkey_server: PrivateServer) -> str:
    """Address of an empty Valkey."""
    valkey_server.flush()
    return valkey_server.url


@pytest.fixture
def scripted_model() -> Iterator[ScriptedServer]:
    """An OpenAI-compatible server that answers from a script."""
    from retinue.contract import SettingsError
    from retinue.worker.extra import require_extra

    try:
        require_extra("the fixture scripted_model", ["aiohttp"])
    except SettingsError as fault:
        pytest.fail(str(fault), pytrace=False)
    from retinue.testing.scripted_server import ScriptedServer

    with ScriptedServer() as server:
        yield server


@pytest.fixture
def worker_process(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[WorkerFactory]:
    """Starts real workers: `worker_process(store_url, agents=["shop.agents"], concurrency=1)`."""
    from retinue.testing.workers import WorkerFactory

    factory = WorkerFactory(tmp_path, request.path.parent)
    yield factory
    factory.close()


@pytest.fixture
def lifecycle() -> Iterator[LifecycleFactory]:
    """Makes client facades: `lifecycle(store_url, session_id="customer-42")`."""
    from retinue.testing.clients import LifecycleFactory

    factory = LifecycleFactory()
    yield factory
    factory.close()


def _private_server(kind: str) -> Iterator[PrivateServer]:
    from retinue.testing.servers import PrivateServer, ServerKind, server_binary

    if server_binary(ServerKind(kind)) is None:
        missing = f"no {kind} server on this machine"
        if os.environ.get("CI"):
            pytest.fail(f"{missing}: CI must run against it")
        pytest.skip(missing)
    with PrivateServer(kind) as server:
        yield server
