"""Whether a command that failed may have run: both links tell, and launches are answered by it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from retinue.contract import StoreUnavailableError
from retinue.store.connections.link import AsyncLink
from retinue.store.connections.sync_link import SyncLink
from retinue.testing.proxy import FaultProxy, Loss
from retinue.testing.servers import PrivateServer

pytestmark = pytest.mark.direct_only("is about links to the store")


@pytest.fixture
def proxy(valkey_server: PrivateServer) -> Iterator[FaultProxy]:
    made = FaultProxy(valkey_server.port)
    yield made
    made.close()


class Link:
    """A link of either colour, for plain code."""

    def __init__(self, colour: str, url: str, **options: Any) -> None:
        self._link = (AsyncLink if colour == "async" else SyncLink)(url, **options)
        self._runner = asyncio.Runner()

    def fault_of(self, name: str, *args: Any) -> StoreUnavailableError:
        with pytest.raises(StoreUnavailableError) as caught:
            self.call(name, *args)
        return caught.value

    def call(self, name: str, *args: Any) -> Any:
        async def ask() -> Any:
            answer = getattr(self._link, name)(*args)
            return await answer if inspect.isawaitable(answer) else answer

        return self._runner.run(ask())

    def close(self) -> None:
        self.call("close")
        self._runner.close()


@pytest.fixture
def links(colour: str) -> Iterator[Any]:
    made: list[Link] = []

    def link(url: str, **options: Any) -> Link:
        made.append(Link(colour, url, **options))
        return made[-1]

    yield link
    for one in made:
        one.close()


def test_what_finds_no_server_was_not_sent(links: Any) -> None:
    link = links("redis://127.0.0.1:1/0")
    assert not link.fault_of("execute", "PING").sent
    assert not link.fault_of("pipeline", [("PING",)]).sent


def test_what_lost_its_reply_was_sent(links: Any, proxy: FaultProxy) -> None:
    link = links(proxy.url, retries=0)
    link.call("execute", "DEL", "n")
    proxy.lose(Loss.REPLY, to=b"INCR", count=2)
    for fault in (link.fault_of("execute", "INCR", "n"), link.fault_of("pipeline", [("INCR", "n")])):
        assert (fault.sent, fault.timed_out) == (True, False)
    assert link.call("execute", "GET", "n") == b"2"


def test_what_was_sent_once_stays_so_although_its_repeat_finds_no_server(
    links: Any, proxy: FaultProxy
) -> None:
    link = links(proxy.url, retries=1)
    link.call("execute", "PING")
    proxy.lose(Loss.REPLY, to=b"INCR")
    proxy.refuse()
    assert link.fault_of("execute", "INCR", "n").sent


def test_a_cut_in_the_greeting_sent_nothing(links: Any, proxy: FaultProxy) -> None:
    proxy.lose(Loss.REPLY, to=b"PING")
    assert not links(proxy.url, retries=0).fault_of("execute", "INCR", "n").sent


def test_a_reply_that_took_too_long_is_told_from_one_that_was_cut(
    links: Any, valkey_server: PrivateServer
) -> None:
    link = links(valkey_server.url, timeout_s=0.2)
    fault = link.fault_of("execute", "BLPOP", "nothing", 5)
    assert (fault.sent, fault.timed_out) == (True, True)


def test_what_the_server_refuses_to_serve_now_did_not_run(links: Any) -> None:
    with PrivateServer(config={"min-replicas-to-write": "1"}) as server:
        fault = links(server.url).fault_of("execute", "SET", "k", "v")
    assert "NOREPLICAS" in str(fault)
    assert not fault.sent
