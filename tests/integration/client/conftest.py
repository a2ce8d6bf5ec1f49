"""Server, worker and facades; each test gets an empty store and closes what it opened."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest
from tests.integration.client.colours import Blocking, LoopThread
from tests.integration.client.served_api import ServedApi, ServedApis
from tests.integration.client.store_worker import StoreWorker

from retinue.broker.settings import Settings
from retinue.client import AsyncSubagentLifecycle, SubagentLifecycle
from retinue.contract import SubagentLifecycleError, validate_tenant
from retinue.store.connections.sync_link import SyncLink
from retinue.store.operations.api_keys import Scope, create_key
from retinue.store.store import Store
from retinue.testing.proxy import FaultProxy
from retinue.testing.servers import PrivateServer

ALL_SCOPES = (Scope.READ, Scope.WRITE, Scope.ADMIN)
DIRECT = ("sync", "async")
OVER_HTTP = ("http", "async-http")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "direct_only(reason): says nothing of the facade over HTTP")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    gone = [item for item in items if _is_over_http(item) and _is_direct_only(item)]
    config.hook.pytest_deselected(items=gone)
    items[:] = [item for item in items if item not in gone]


def _is_over_http(item: pytest.Item) -> bool:
    return _parameter(item, "colour") in OVER_HTTP


def _is_direct_only(item: pytest.Item) -> bool:
    # Which store the API has is the affair of its own facade, whose colours meet both.
    return item.get_closest_marker("direct_only") is not None or _parameter(item, "store_server") == "redis"


def _parameter(item: pytest.Item, name: str) -> object:
    return (
        item.callspec.params.get(name)
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
        else None
    )


class Facades:
    """Makes facades of one colour for one store.

    Args:
        apis: For the colours over HTTP.
    """

    def __init__(self, url: str, colour: str, apis: ServedApis | None = None) -> None:
        self.url = url
        self._apis = apis if colour in OVER_HTTP else None
        self._thread = LoopThread() if colour.startswith("async") else None
        self.kind = AsyncSubagentLifecycle if self._thread else SubagentLifecycle
        self._keys: dict[tuple[str, ...], str] = {}
        self._asked: set[ServedApi] = set()
        self._made: list[Any] = []

    def settings(self, **options: object) -> Settings:
        return Settings.read(**{"store_url": self.url, **options})

    def __call__(
        self, session_id: str | None = "customer-42", *, tenant: str = "_", **options: object
    ) -> Any:
        return self.keep(self.kind(session_id, tenant=tenant, **self._way(tenant, options)))

    def operator(self, tenant: str = "_") -> Any:
        return self.keep(self.kind.operator(tenant, **self._way(tenant, {})))

    def of_parent(self, parent: Any) -> Any:
        # A running agent's process has a way to the store.
        if self._apis is not None:
            return self.keep(SubagentLifecycle.of_parent(parent, settings=self.settings()), direct=True)
        return self.keep(self.kind.of_parent(parent, settings=self.settings()))

    def keep(self, facade: Any, *, direct: bool = False) -> Any:
        shown = Blocking(facade, self._thread) if self._thread and not direct else facade
        self._made.append(shown)
        return shown

    def close(self) -> None:
        for facade in self._made:
            facade.close()
        if self._thread:
            self._thread.close()

    def _way(self, tenant: str, options: dict[str, object]) -> dict[str, Any]:
        """To the store, or to an API over it."""
        if self._apis is None:
            return {"settings": self.settings(**options)}
        return {"url": self.api(**options).url, "api_key": self.key(tenant)}

    def api(self, **options: object) -> ServedApi:
        """The API over the store, with these settings."""
        assert self._apis is not None
        api = self._apis.over(self.url, **options)
        if api not in self._asked:
            self._asked.add(api)
            api.forget()
        return api

    def key(self, tenant: str = "_", scopes: Sequence[Scope] = ALL_SCOPES) -> str:
        """An API key of a tenant, the same each time."""
        kept = (tenant, *scopes)
        if kept not in self._keys:
            owner = tenant if _is_tenant(tenant) else "_"
            with closing(SyncLink(self.url, client_name="test-keys")) as link:
                self._keys[kept] = create_key(Store(link), tenant=owner, scopes=scopes, name="test").text
        return self._keys[kept]


def _is_tenant(tenant: str) -> bool:
    try:
        validate_tenant(tenant)
    except SubagentLifecycleError:
        return False
    return True


@pytest.fixture(params=[*DIRECT, *OVER_HTTP])
def colour(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def served_apis() -> Iterator[ServedApis]:
    # Not for longer: their loops draw random numbers, which tests of properties must find undisturbed.
    made = ServedApis()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def patient_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """How soon an API that is slow on a busy machine is given up is no part of the contract."""
    monkeypatch.setattr("retinue.client.over_http.exchange.REPLY_S", 60.0)


@pytest.fixture
def proxy(valkey_server: PrivateServer) -> Iterator[FaultProxy]:
    """A way to an empty store that can fail."""
    valkey_server.flush()
    with FaultProxy(valkey_server.port) as made:
        yield made


@pytest.fixture
def facades(fresh_store_url: str, colour: str, served_apis: ServedApis) -> Iterator[Facades]:
    """Facades of all colours, over both servers."""
    made = Facades(fresh_store_url, colour, served_apis)
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
