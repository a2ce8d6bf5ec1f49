"""Server, worker and facades; each test gets an empty store and closes what it opened."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.client.colours import Blocking, LoopThread
from tests.integration.client.store_worker import StoreWorker

from retinue.broker.settings import Settings
from retinue.client import AsyncSubagentLifecycle, SubagentLifecycle
from retinue.testing.proxy import FaultProxy
from retinue.testing.servers import PrivateServer


class Facades:
    """Makes facades of one colour for one store."""

    def __init__(self, url: str, colour: str) -> None:
        self.url = url
        self._colour = colour
        self._thread = LoopThread() if colour == "async" else None
        self._made: list[Any] = []

    def settings(self, **options: object) -> Settings:
        return Settings.read(**{"store_url": self.url, **options})

    def __call__(
        self, session_id: str | None = "customer-42", *, tenant: str = "_", **options: object
    ) -> Any:
        kind = AsyncSubagentLifecycle if self._thread else SubagentLifecycle
        return self.keep(kind(session_id, tenant=tenant, settings=self.settings(**options)))

    def operator(self, tenant: str = "_") -> Any:
        kind = AsyncSubagentLifecycle if self._thread else SubagentLifecycle
        return self.keep(kind.operator(tenant, settings=self.settings()))

    def of_parent(self, parent: Any) -> Any:
        kind = AsyncSubagentLifecycle if self._thread else SubagentLifecycle
        return self.keep(kind.of_parent(parent, settings=self.settings()))

    def keep(self, facade: Any) -> Any:
        shown = Blocking(facade, self._thread) if self._thread else facade
        self._made.append(shown)
        return shown

    def close(self) -> None:
        for facade in self._made:
            facade.close()
        if self._thread:
            self._thread.close()


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def proxy(valkey_server: PrivateServer) -> Iterator[FaultProxy]:
    """A way to an empty store that can fail."""
    valkey_server.flush()
    with FaultProxy(valkey_server.port) as made:
        yield made


@pytest.fixture
def facades(fresh_store_url: str, colour: str) -> Iterator[Facades]:
    """Facades of both colours, over both servers."""
    made = Facades(fresh_store_url, colour)
    yield made
    made.close()


@pytest.fixture
def worker(facades: Facades) -> Iterator[StoreWorker]:
    """Has advertised `support` and `researcher`."""
    made = StoreWorker(facades.url)
    made.advertise("support", "researcher", model="gpt-5-mini", provider="openai")
    yield made
    made.close()


@pytest.fixture
def lifecycle(facades: Facades, worker: StoreWorker) -> Any:
    """The facade of the session customer-42."""
    return facades()
