"""What callers see when the store or the broker is down, frozen, restarted, or loses replies."""

from __future__ import annotations

import pickle
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.client.conftest import Facades
from tests.integration.client.patience import wait_until
from tests.integration.client.store_worker import StoreWorker

from retinue.client import ErrorCode, SubagentLifecycleError, SubagentState
from retinue.testing.proxy import FaultProxy, Loss
from retinue.testing.servers import PrivateServer

pytestmark = pytest.mark.direct_only("how the store's own outages meet whoever goes to it")

SOON_S = 30.0
"""What is over by then, also on a busy machine, did not wait for a longer time-out, or for ever."""


@pytest.fixture
def server() -> Iterator[PrivateServer]:
    """A server of the test's own, to be killed; what it holds survives a restart."""
    with PrivateServer(appendonly=True, config={"appendfsync": "always"}) as private:
        yield private


@pytest.fixture
def facades(server: PrivateServer, colour: str) -> Iterator[Facades]:
    made = Facades(server.url, colour)
    yield made
    made.close()


@pytest.fixture
def worker(server: PrivateServer) -> Iterator[StoreWorker]:
    made = StoreWorker(server.url)
    made.advertise("support")
    yield made
    made.close()


def fault_of(call: Any, *args: object, **keywords: object) -> tuple[SubagentLifecycleError, float]:
    started = time.monotonic()
    with pytest.raises(SubagentLifecycleError) as caught:
        call(*args, **keywords)
    return caught.value, time.monotonic() - started


def scripts_run(server: PrivateServer) -> int:
    stats = server.client().info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("eval", "evalsha"))


def test_a_store_that_was_never_there_is_reported_at_once(colour: str) -> None:
    facades = Facades("redis://127.0.0.1:1/0", colour)
    lifecycle = facades(store_timeout_seconds=60)
    error, seconds = fault_of(lifecycle.launch, agent="support", goal="x")
    assert error.code == ErrorCode.STORE_UNAVAILABLE
    assert "127.0.0.1:1" in str(error)
    assert seconds < SOON_S
    facades.close()


def test_a_store_that_died_is_reported_at_once_by_every_call(
    server: PrivateServer, facades: Facades, worker: StoreWorker
) -> None:
    lifecycle = facades(store_timeout_seconds=60)
    handle = lifecycle.launch(agent="support", goal="x")
    server.kill()
    calls = (
        # On a connection that was in use just now, and yet nothing was sent.
        (lifecycle.launch, {"agent": "support", "goal": "x"}),
        (lifecycle.status, handle),
        (lifecycle.result, handle),
        (lifecycle.steer, handle, "x"),
        (lifecycle.cancel, handle),
        (lifecycle.wait, handle),
        (lifecycle.reconnect, handle),
        (lifecycle.list,),
    )
    for call, *arguments in calls:
        error, seconds = fault_of(call, *arguments)
        assert (error.code, seconds < SOON_S) == (ErrorCode.STORE_UNAVAILABLE, True), call
    assert lifecycle.status({}).state == SubagentState.UNKNOWN
    server.start()
    assert lifecycle.status(handle).state == SubagentState.PENDING


def test_a_frozen_store_is_reported_within_its_timeout(
    server: PrivateServer, facades: Facades, worker: StoreWorker
) -> None:
    lifecycle = facades(store_timeout_seconds=2)
    handle = lifecycle.launch(agent="support", goal="x")
    server.pause()
    try:
        error, seconds = fault_of(lifecycle.status, handle)
        assert error.code == ErrorCode.STORE_UNAVAILABLE
        assert seconds < SOON_S
        error, seconds = fault_of(lifecycle.launch, agent="support", goal="x")
        assert error.code in (ErrorCode.STORE_UNAVAILABLE, ErrorCode.LAUNCH_UNKNOWN)
        assert seconds < SOON_S
    finally:
        server.resume()
    assert lifecycle.status(handle).state == SubagentState.PENDING


@pytest.fixture
def proxy(server: PrivateServer) -> Iterator[FaultProxy]:
    made = FaultProxy(server.port)
    yield made
    made.close()


def test_a_launch_whose_reply_is_lost_is_repeated_under_the_same_id(
    proxy: FaultProxy, worker: StoreWorker, colour: str
) -> None:
    facades = Facades(proxy.url, colour)
    lifecycle = facades()
    lifecycle.launch(agent="support", goal="warm")
    proxy.lose(Loss.REPLY, to=b"EVALSHA", count=3)
    handle = lifecycle.launch(agent="support", goal="x", correlation_id="once")
    assert len(lifecycle.list()) == 2
    assert worker.link.execute("LLEN", "retinue\x06\x166") == 2
    assert lifecycle.status(handle).state == SubagentState.PENDING
    facades.close()


def test_a_steer_whose_reply_is_lost_is_queued_once(
    proxy: FaultProxy, worker: StoreWorker, colour: str
) -> None:
    facades = Facades(proxy.url, colour)
    lifecycle = facades()
    handle = lifecycle.launch(agent="support", goal="x")
    assert lifecycle.steer(handle, "one")
    proxy.lose(Loss.REPLY, to=b"EVALSHA")
    assert lifecycle.steer(handle, "two")
    fence = worker.claim(handle)
    assert worker.boundary(handle, fence).steers == ["one", "two"]
    facades.close()


def test_a_launch_whose_outcome_stays_unknown_carries_the_handle(
    proxy: FaultProxy, server: PrivateServer, worker: StoreWorker, colour: str
) -> None:
    facades = Facades(proxy.url, colour)
    lifecycle = facades(store_timeout_seconds=2)
    lifecycle.launch(agent="support", goal="warm")
    proxy.lose(Loss.REPLY, to=b"EVALSHA")
    proxy.refuse()
    error, seconds = fault_of(lifecycle.launch, agent="support", goal="x", correlation_id="once")
    assert error.code == ErrorCode.LAUNCH_UNKNOWN
    assert seconds < SOON_S
    facades.close()
    copy = pickle.loads(pickle.dumps(error))
    direct = Facades(server.url, colour)
    assert direct().status(copy.handle).state == SubagentState.PENDING
    again = direct().launch(agent="support", goal="x", correlation_id="once", on_duplicate="return")
    assert again.subagent_id == copy.handle.subagent_id
    direct.close()


def test_a_wait_outlives_a_restart_of_the_store(
    server: PrivateServer, facades: Facades, worker: StoreWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that it reads while the store is down.
    monkeypatch.setattr("retinue.client.clock.SAFETY_READ_S", 0.1)
    lifecycle = facades()
    handle = lifecycle.launch(agent="support", goal="x")
    before = scripts_run(server)
    ends: list[Any] = []
    waiter = threading.Thread(target=lambda: ends.append(lifecycle.wait(handle, timeout_seconds=60)))
    waiter.start()
    wait_until(lambda: scripts_run(server) > before)
    server.kill()
    waiter.join(1)
    assert waiter.is_alive()
    server.start()
    worker.complete(handle)
    waiter.join(60)
    assert [end.state for end in ends] == [SubagentState.SUCCEEDED]


def test_a_wait_whose_time_is_over_during_an_outage_raises(
    server: PrivateServer, facades: Facades, worker: StoreWorker
) -> None:
    lifecycle = facades()
    handle = lifecycle.launch(agent="support", goal="x")
    before = scripts_run(server)
    faults: list[Any] = []
    waiter = threading.Thread(
        target=lambda: faults.append(fault_of(lifecycle.wait, handle, timeout_seconds=6))
    )
    waiter.start()
    wait_until(lambda: scripts_run(server) > before)
    server.kill()
    waiter.join(60)
    ((error, seconds),) = faults
    # The first safety read would come after the time is over: only the reconnect makes it look.
    assert error.code == ErrorCode.STORE_UNAVAILABLE
    assert seconds < SOON_S


def test_a_store_at_its_memory_limit_refuses_launches_and_still_cancels(colour: str) -> None:
    with PrivateServer(maxmemory="4mb") as server:
        facades = Facades(server.url, colour)
        worker = StoreWorker(server.url)
        worker.advertise("support")
        lifecycle = facades()
        handle = lifecycle.launch(agent="support", goal="x")
        admin = server.client()
        admin.config_set("maxmemory", "1mb")
        error, _ = fault_of(lifecycle.launch, agent="support", goal="x")
        assert error.code == ErrorCode.STORE_UNAVAILABLE
        assert "memory" in str(error)
        assert lifecycle.cancel(handle).accepted
        assert lifecycle.result(handle).terminal_state == SubagentState.CANCELLED
        worker.close()
        facades.close()


def test_a_launch_succeeds_while_only_the_broker_is_down(
    server: PrivateServer, worker: StoreWorker, colour: str
) -> None:
    facades = Facades(server.url, colour)
    lifecycle = facades(broker_url="redis://127.0.0.1:1/0")
    handle = lifecycle.launch(agent="support", goal="x")
    assert lifecycle.status(handle).state == SubagentState.PENDING
    assert worker.claim(handle).epoch == 1
    facades.close()


def test_another_server_as_broker_gets_the_wake_up(
    server: PrivateServer, worker: StoreWorker, colour: str
) -> None:
    with PrivateServer() as broker:
        facades = Facades(server.url, colour)
        lifecycle = facades(broker_url=broker.url)
        handles = lifecycle.launch_many([{"agent": "support", "goal": "x"}] * 3)
        assert broker.client().llen("retinue\x06\x166") == 3
        assert server.client().llen("retinue\x06\x166") == 0
        assert len({handle.subagent_id for handle in handles}) == 3
        facades.close()


@pytest.mark.parametrize("looked_first", [True, False])
def test_a_wait_at_a_frozen_store_is_at_most_a_second_late(
    server: PrivateServer, facades: Facades, worker: StoreWorker, looked_first: bool
) -> None:
    # Looked at before, only the look at the wait's end meets the silence; else the first look does.
    timeout_s, wait_s = (4, 4.5) if looked_first else (2.5, 2)
    lifecycle = facades(store_timeout_seconds=timeout_s)
    handle = lifecycle.launch(agent="support", goal="x")
    before = scripts_run(server)
    if not looked_first:
        server.pause()
    faults: list[Any] = []
    waiter = threading.Thread(target=lambda: faults.append(fault_of(lifecycle.wait, handle, wait_s)))
    waiter.start()
    try:
        if looked_first:
            wait_until(lambda: scripts_run(server) > before)
            server.pause()
        waiter.join(60)
    finally:
        server.resume()
    ((error, _),) = faults
    assert error.code == ErrorCode.STORE_UNAVAILABLE
    granted = re.search(r"no reply within ([\d.]+) s", str(error))
    assert granted, error
    assert float(granted[1]) <= (1 if looked_first else timeout_s)
