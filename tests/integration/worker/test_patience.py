"""A worker waits for a store that is away or full, and gives up only what is refused for good."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from retinue.contract import StoreReplyError
from retinue.store.call import CommandCall
from retinue.store.connections.link import AsyncLink
from retinue.store.store import AsyncStore
from retinue.testing.servers import PrivateServer
from retinue.worker.process.patience import PatientStore


@pytest.fixture
def server(store_server: PrivateServer) -> Iterator[PrivateServer]:
    """One that may be ended: of the same kind as the one that other tests share."""
    with PrivateServer(store_server.kind, appendonly=True) as server:
        yield server


class Waits:
    """Hears of every wait."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.first = asyncio.Event()

    def __call__(self, reason: str) -> None:
        self.reasons.append(reason)
        self.first.set()


@pytest.fixture
async def link(server: PrivateServer) -> AsyncIterator[AsyncLink]:
    link = AsyncLink(server.url, connect_timeout_s=0.5, timeout_s=1.0)
    yield link
    await link.close()


def command(*words: Any) -> CommandCall[Any]:
    return CommandCall(words, lambda reply: reply)


async def test_a_call_waits_through_a_restart_of_the_server(
    server: PrivateServer, link: AsyncLink, caplog: pytest.LogCaptureFixture
) -> None:
    waits = Waits()
    store = PatientStore(AsyncStore(link), on_wait=waits)
    await store.run(command("SET", "secret", "before"))
    server.stop()

    with caplog.at_level(logging.WARNING, "retinue.worker"):
        calls = [asyncio.create_task(store.run(command("GET", "secret"))) for _ in range(20)]
        await asyncio.wait_for(waits.first.wait(), 30)
        assert not any(call.done() for call in calls)
        await asyncio.to_thread(server.start)
        async with asyncio.timeout(30):
            assert await asyncio.gather(*calls) == [b"before"] * 20

    assert set(waits.reasons) == {"StoreUnavailableError"}
    assert "store.waiting reason=StoreUnavailableError" in caplog.text
    assert "secret" not in caplog.text


async def test_a_call_waits_until_a_full_server_has_room(server: PrivateServer, link: AsyncLink) -> None:
    waits = Waits()
    store = PatientStore(AsyncStore(link), on_wait=waits)
    await store.run(command("CONFIG", "SET", "maxmemory", "1"))

    call = asyncio.create_task(store.run(command("SET", "key", "value")))
    await asyncio.wait_for(waits.first.wait(), 30)
    await store.run(command("CONFIG", "SET", "maxmemory", "0"))

    async with asyncio.timeout(30):
        assert await call == b"OK"
    assert set(waits.reasons) == {"StoreMemoryError"}


async def test_a_call_that_the_server_refuses_is_not_repeated(link: AsyncLink) -> None:
    waits = Waits()
    store = PatientStore(AsyncStore(link), on_wait=waits)
    await store.run(command("SET", "key", "value"))
    sent = link.commands

    with pytest.raises(StoreReplyError):
        await store.run(command("INCR", "key"))

    assert link.commands == sent + 1
    assert waits.reasons == []


async def test_a_reply_that_makes_no_sense_is_not_asked_for_again(link: AsyncLink) -> None:
    def parse(reply: Any) -> Any:
        raise StoreReplyError("odd")

    with pytest.raises(StoreReplyError):
        await PatientStore(AsyncStore(link)).run(CommandCall(("PING",), parse))
    assert link.commands == 1


async def test_the_waits_grow_and_end_with_their_task(
    server: PrivateServer, link: AsyncLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    enough = asyncio.Event()

    async def sleep(delay_s: float) -> None:
        slept.append(delay_s)
        if len(slept) == 12:
            enough.set()
            await asyncio.Event().wait()

    server.stop()
    # The link has a back-off of its own, in the same module of the standard library.
    monkeypatch.setattr("retinue.worker.process.patience.asyncio", _Sleeping(sleep))
    call = asyncio.create_task(PatientStore(AsyncStore(link)).run(command("PING")))
    await asyncio.wait_for(enough.wait(), 30)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    assert 0.025 <= slept[0] <= 0.05
    assert all(1.0 <= delay_s <= 2.0 for delay_s in slept[8:]), slept


class _Sleeping:
    def __init__(self, sleep: Any) -> None:
        self.sleep = sleep
