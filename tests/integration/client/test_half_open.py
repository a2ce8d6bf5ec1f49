"""Connections whose other end is gone without a word: found before anything is lost on them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from tests.integration.client.conftest import Facades
from tests.integration.client.store_worker import StoreWorker

from retinue.client import ErrorCode, SubagentLifecycleError, SubagentState
from retinue.testing.proxy import FaultProxy
from retinue.testing.servers import PrivateServer

pytestmark = pytest.mark.direct_only("is about links to the store")


@pytest.fixture
def fresh_store_url(proxy: FaultProxy) -> str:
    return proxy.url


@pytest.fixture
def worker(valkey_server: PrivateServer, proxy: FaultProxy) -> Iterator[StoreWorker]:
    """By a way of its own: what it does is not to be disturbed."""
    made = StoreWorker(valkey_server.url)
    made.advertise("support")
    yield made
    made.close()


@pytest.fixture
def asks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every connection counts as one that has been idle for long."""
    monkeypatch.setattr("retinue.store.connections.keepalive.ASK_AFTER_S", 0.0)


@pytest.mark.usefixtures("asks_at_once")
def test_a_launch_on_a_connection_that_died_silently_succeeds(
    facades: Facades, worker: StoreWorker, proxy: FaultProxy
) -> None:
    # The old connection is asked for half of it; what is left must do for a new one.
    lifecycle = facades(store_timeout_seconds=4)
    lifecycle.launch(agent="support", goal="warm")
    proxy.black_hole()
    handle = lifecycle.launch(agent="support", goal="x")
    assert lifecycle.status(handle).state == SubagentState.PENDING
    assert len(lifecycle.list()) == 2


@pytest.mark.usefixtures("asks_at_once")
def test_a_launch_into_a_black_hole_fails_soon_and_was_not_sent(
    facades: Facades, worker: StoreWorker, proxy: FaultProxy
) -> None:
    lifecycle = facades(store_timeout_seconds=2)
    lifecycle.launch(agent="support", goal="warm")
    proxy.black_hole(new_too=True)
    started = time.monotonic()
    with pytest.raises(SubagentLifecycleError) as failed:
        lifecycle.launch(agent="support", goal="x")
    assert failed.value.code is ErrorCode.STORE_UNAVAILABLE
    assert time.monotonic() - started < 20
    proxy.heal()
    assert len(lifecycle.list()) == 1


def test_a_connection_in_use_is_not_asked(
    facades: Facades, worker: StoreWorker, valkey_server: PrivateServer
) -> None:
    lifecycle = facades()
    handle = lifecycle.launch(agent="support", goal="x")
    client = valkey_server.client()
    before = client.info("commandstats").get("cmdstat_ping", {"calls": 0})["calls"]
    for _ in range(3):
        lifecycle.status(handle)
    assert client.info("commandstats").get("cmdstat_ping", {"calls": 0})["calls"] == before


def test_a_server_that_died_since_the_last_use_was_sent_nothing(colour: str) -> None:
    for _ in range(5):
        with PrivateServer() as server:
            facades, worker = Facades(server.url, colour), StoreWorker(server.url)
            worker.advertise("support")
            lifecycle = facades()
            handle = lifecycle.launch(agent="support", goal="warm")
            lifecycle.status(handle)
            server.kill()
            with pytest.raises(SubagentLifecycleError) as failed:
                lifecycle.launch(agent="support", goal="x")
            assert failed.value.code is ErrorCode.STORE_UNAVAILABLE
            worker.close()
            facades.close()
