"""`durability = "strict"`: a launch counts once a replica has it, however the call is repeated."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from retinue.contract.errors import StoreUnavailableError
from retinue.store.connections.replicated_links import AsyncReplicatedLink, ReplicatedLink
from retinue.store.script import Script
from retinue.testing.servers import PrivateServer, ServerKind, server_binary

# Writes once, as every operation does: a repeat is answered and changes nothing.
BODY = "#!lua\nif redis.call('EXISTS', KEYS[1]) == 0 then redis.call('SET', KEYS[1], 1) end\nreturn 'done'"
LAUNCH = Script.from_text("launch", BODY)
BOUNDARY = Script.from_text("boundary", BODY)
SOON_S = 30.0


@dataclass(frozen=True)
class Pair:
    """A primary with one replica."""

    primary: PrivateServer
    replica: PrivateServer


@pytest.fixture(scope="module", params=[kind.value for kind in ServerKind])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    kind = request.param
    if server_binary(ServerKind(kind)) is None:
        pytest.skip(f"no {kind} server on this machine")
    at_once = {"repl-diskless-sync-delay": "0"}
    with PrivateServer(kind, config=at_once) as primary, PrivateServer(kind) as replica:
        replica.client().execute_command("REPLICAOF", "127.0.0.1", primary.port)
        deadline = time.monotonic() + SOON_S
        while not primary.client().wait(1, 100):
            assert time.monotonic() < deadline
        yield Pair(primary, replica)


def waits_at(server: PrivateServer) -> int:
    """How often the server was asked to wait for its replicas."""
    return server.client().info("commandstats").get("cmdstat_wait", {"calls": 0})["calls"]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From its call on a replica gets more time than even a busy machine takes."""
    return lambda: monkeypatch.setattr("retinue.store.connections.acknowledging.LONGEST_WAIT_S", SOON_S)


def evalsha_sync(url: str, script: Script, key: str) -> Any:
    link = ReplicatedLink(url, timeout_s=2 * SOON_S, retries=0)
    try:
        return link.evalsha(script, [key])
    finally:
        link.close()


def evalsha_async(url: str, script: Script, key: str) -> Any:
    async def call() -> Any:
        link = AsyncReplicatedLink(url, timeout_s=2 * SOON_S)
        try:
            return await link.evalsha(script, [key])
        finally:
            await link.close()

    return asyncio.run(call())


@pytest.fixture(params=[evalsha_sync, evalsha_async], ids=["sync", "async"])
def evalsha(request: pytest.FixtureRequest) -> Callable[[str, Script, str], Any]:
    """Runs a script on one key, over a fresh link."""
    return request.param


def test_a_call_returns_once_the_replica_has_it(
    pair: Pair, evalsha: Callable[..., Any], patient: Callable[[], None]
) -> None:
    patient()
    key = f"has {evalsha.__name__}"
    assert evalsha(pair.primary.url, LAUNCH, key) == b"done"
    assert pair.replica.client().get(key) == b"1"


def test_what_no_replica_acknowledges_is_refused_also_when_it_is_repeated(
    pair: Pair, evalsha: Callable[..., Any], patient: Callable[[], None]
) -> None:
    key = f"repeated {evalsha.__name__}"
    pair.replica.pause()
    try:
        # The second link writes nothing: what it waits for is the write of the first.
        for _ in range(2):
            with pytest.raises(StoreUnavailableError, match="no replica acknowledged") as caught:
                evalsha(pair.primary.url, LAUNCH, key)
            assert caught.value.sent
    finally:
        pair.replica.resume()
    patient()
    assert evalsha(pair.primary.url, LAUNCH, key) == b"done"
    assert pair.replica.client().get(key) == b"1"


def test_what_a_worker_writes_in_between_waits_for_nobody(pair: Pair, evalsha: Callable[..., Any]) -> None:
    pair.replica.pause()
    try:
        before = waits_at(pair.primary)
        assert evalsha(pair.primary.url, BOUNDARY, "between") == b"done"
        assert waits_at(pair.primary) == before
    finally:
        pair.replica.resume()


def test_a_server_without_replicas_is_asked_for_none(
    fresh_store_url: str, store_server: PrivateServer, evalsha: Callable[..., Any]
) -> None:
    before = waits_at(store_server)
    assert evalsha(fresh_store_url, LAUNCH, f"alone {evalsha.__name__}") == b"done"
    assert waits_at(store_server) == before


async def test_many_share_one_wait_and_hold_the_others_up_by_no_more(pair: Pair) -> None:
    link = AsyncReplicatedLink(pair.primary.url, timeout_s=2 * SOON_S)
    assert await link.evalsha(LAUNCH, ["first"]) == b"done"
    pair.replica.pause()
    try:
        before = waits_at(pair.primary)
        calls = [link.evalsha(LAUNCH, [f"many {number}"]) for number in range(30)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        waits = waits_at(pair.primary) - before
    finally:
        pair.replica.resume()
    assert all(isinstance(outcome, StoreUnavailableError) for outcome in outcomes)
    assert len({id(outcome) for outcome in outcomes}) == len(outcomes)
    assert 1 <= waits <= 3  # not one each
    async with asyncio.timeout(SOON_S):
        # The replica that goes on has to catch up first; a repeat waits for it again.
        reply = None
        while reply is None:
            with suppress(StoreUnavailableError):
                reply = await link.evalsha(LAUNCH, ["many 1"])
    assert reply == b"done"
    await link.close()
