"""Waiting for a place at a provider with limits: who is told, what ends the wait, what is given back."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from retinue.contract import ErrorClassification
from retinue.store import keys
from retinue.store.connections.async_subscription import AsyncSubscriptions
from retinue.store.connections.link import AsyncLink
from retinue.store.operations.provider_places import HELD_MS, ProviderLimits
from retinue.store.store import AsyncStore
from retinue.testing.servers import PrivateServer
from retinue.worker.models import ModelError, ModelRequest, ModelUsage, Provider, admission
from retinue.worker.models.admission import Admission, Admissions, WaitAbandonedError
from retinue.worker.process.patience import PatientStore

ONE = ProviderLimits(max_concurrency=1)
WITHIN_S = 3.0
"""Far below the 5 s after which one that waits asks by itself."""


class Process:
    """As much of a worker process as waits."""

    def __init__(self, url: str, provider: str) -> None:
        self.name = secrets.token_hex(8)
        self.provider = provider
        self.link = AsyncLink(url)
        self.subscriptions = AsyncSubscriptions(url)
        self.draining = asyncio.Event()
        self.lent: list[str] = []
        self.slots: Any = SimpleNamespace()
        self.run: Any = SimpleNamespace(
            fence=SimpleNamespace(token="token"),
            measured=None,
            begin_wait=lambda _slots: self.lent.append("lent"),
            end_wait=lambda _slots: self.lent.append("back"),
        )
        self.admissions = Admissions(
            PatientStore(AsyncStore(self.link)),
            self.subscriptions,
            self.name,
            self.slots,
            most_lent=1,
            output_tokens=1_000,
            closed_max_s=30.0,
            draining=self.draining,
        )

    def admission(self, limits: ProviderLimits | None, *, may_go_on: bool = True, **params: Any) -> Admission:
        provider = Provider(name=self.provider, base_url="http://p/v1", limits=limits)
        request = ModelRequest(provider=provider, model="m", entries=("x" * 300,), params=params)

        async def answer() -> bool:
            return may_go_on

        found = self.admissions.of(request, self.run, answer)
        assert found is not None
        return found

    async def close(self) -> None:
        await self.admissions.close(WITHIN_S)
        await self.subscriptions.close()
        await self.link.close()


class Desk:
    """One provider, and processes that ask for it."""

    def __init__(self, server: PrivateServer, stack: AsyncExitStack) -> None:
        self.provider = f"p-{secrets.token_hex(4)}"
        self.buckets, self.held, self.queue, _ = keys.provider_places(self.provider)
        self.server: redis.Redis = server.client(decode_responses=True)
        self._url = server.url
        self._stack = stack

    def process(self) -> Process:
        process = Process(self._url, self.provider)
        self._stack.push_async_callback(process.close)
        return process

    async def queued(self, count: int) -> None:
        await until(lambda: self.server.zcard(self.queue) == count)

    async def free(self) -> None:
        await until(lambda: self.server.zcard(self.held) == 0)


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not true():  # noqa: ASYNC110  (the store tells of no change)
            await asyncio.sleep(0.01)


@pytest.fixture
async def desk(store_server: PrivateServer) -> AsyncIterator[Desk]:
    async with AsyncExitStack() as stack:
        yield Desk(store_server, stack)


def entering(one: Admission) -> asyncio.Task[None]:
    async def enter() -> None:
        await one.__aenter__()

    return asyncio.create_task(enter())


async def leave(one: Admission, error: BaseException | None = None) -> None:
    await one.__aexit__(type(error) if error else None, error, None)


async def test_a_provider_without_limits_is_not_asked_for(desk: Desk) -> None:
    provider = Provider(name="p", base_url="http://p/v1")
    request, process = ModelRequest(provider=provider, model="m"), desk.process()

    async def never() -> bool:
        raise AssertionError

    assert process.admissions.of(request, process.run, never) is None


async def test_the_first_to_wait_is_told_at_once_in_whichever_process_it_is(desk: Desk) -> None:
    here, there = desk.process(), desk.process()
    holder, first, second = here.admission(ONE), there.admission(ONE), here.admission(ONE)
    await holder.__aenter__()
    waits = entering(first)
    await desk.queued(1)
    waits_more = entering(second)
    await desk.queued(2)

    began = time.monotonic()
    await leave(holder)
    await asyncio.wait_for(waits, WITHIN_S)
    assert not waits_more.done()
    await leave(first)
    await asyncio.wait_for(waits_more, WITHIN_S)
    assert time.monotonic() - began < WITHIN_S
    await leave(second)
    await desk.free()


async def test_a_cancelled_wait_stands_in_nobodys_way(desk: Desk) -> None:
    process = desk.process()
    holder, gone, other = (process.admission(ONE) for _ in range(3))
    await holder.__aenter__()
    waits = entering(gone)
    await desk.queued(1)
    waits_too = entering(other)
    await desk.queued(2)
    waits.cancel()
    await desk.queued(1)
    await leave(holder)
    await asyncio.wait_for(waits_too, WITHIN_S)


@pytest.mark.parametrize("how", ["drained", "stopped"])
async def test_a_wait_ends_without_a_place_where_nothing_is_to_be_sent_any_more(desk: Desk, how: str) -> None:
    process = desk.process()
    holder, other = process.admission(ONE), process.admission(ONE, may_go_on=how != "stopped")
    await holder.__aenter__()
    waits = entering(other)
    await desk.queued(1)
    if how == "drained":
        process.draining.set()
        process.admissions.wake()
    else:
        await leave(holder)
    with pytest.raises(WaitAbandonedError):
        await asyncio.wait_for(waits, WITHIN_S)
    await desk.queued(0)
    await until(lambda: desk.server.zcard(desk.held) == (how == "drained"))


async def test_a_long_wait_lends_its_slot_and_only_so_many_do(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "LEND_AFTER_S", 0.05)
    process = desk.process()
    holder, one, two = (process.admission(ONE) for _ in range(3))
    await holder.__aenter__()
    waits = entering(one)
    await until(lambda: process.lent == ["lent"])
    waits_too = entering(two)
    await desk.queued(2)
    await asyncio.sleep(0.2)  # nothing is to happen meanwhile
    assert process.lent == ["lent"]

    await leave(holder)
    await asyncio.wait_for(waits, WITHIN_S)
    assert process.lent == ["lent", "back"]
    await leave(one)
    await asyncio.wait_for(waits_too, WITHIN_S)
    assert process.lent == ["lent", "back"], "it was short"


async def test_a_place_is_held_for_as_long_as_its_request_lasts(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "RENEW_EVERY_S", 0.02)
    process = desk.process()
    one = process.admission(ONE)
    await one.__aenter__()
    ((place, _),) = desk.server.zrange(desk.held, 0, -1, withscores=True)
    desk.server.zadd(desk.held, {place: 1})
    await until(lambda: desk.server.zscore(desk.held, place) > (time.time() - 60) * 1000 + HELD_MS)
    await leave(one)
    await process.admissions.close(WITHIN_S)
    assert desk.server.zcard(desk.held) == 0, "no renewal on its way takes it again"


LIMITED = ProviderLimits(tokens_per_minute=100_000)


async def _used(one: Admission) -> None:
    one.count(ModelUsage(input_tokens=300, output_tokens=50))


async def _not_said(one: Admission) -> None:
    one.count(None)


async def _refused(_one: Admission) -> ModelError:
    return ModelError("no", classification=ErrorClassification.MODEL_REJECTED, status=400)


async def _broken(_one: Admission) -> ModelError:
    return ModelError("gone", classification=ErrorClassification.MODEL_UNAVAILABLE, retryable=True)


@pytest.mark.parametrize(
    ("what", "charged"), [(_used, 350), (_not_said, 500 + 100), (_refused, 0), (_broken, 500 + 100)]
)
async def test_what_a_try_really_took_is_charged(
    desk: Desk, what: Callable[[Admission], Awaitable[ModelError | None]], charged: int
) -> None:
    one = desk.process().admission(LIMITED, max_tokens=500)
    await one.__aenter__()
    began = time.monotonic()
    await leave(one, await what(one))
    await desk.free()
    level = float(desk.server.hget(desk.buckets, "tl") or "nan")
    flowed_in = (time.monotonic() - began + 1) * 1_501
    assert 10_000 - charged <= level <= min(10_000, 10_000 - charged + flowed_in)


@pytest.mark.parametrize(("asked_s", "kept_ms"), [(7.0, 7_000), (3_600.0, 30_000), (None, None)])
async def test_a_wish_of_the_provider_is_kept_within_bounds(
    desk: Desk, asked_s: float | None, kept_ms: int | None
) -> None:
    one = desk.process().admission(ONE)
    await one.__aenter__()
    limited = ModelError(
        "slow down",
        classification=ErrorClassification.MODEL_RATE_LIMITED,
        retryable=True,
        status=429,
        retry_after_s=asked_s,
    )
    await leave(one, limited)
    await desk.free()
    kept = desk.server.hget(desk.buckets, "nd")
    assert (None if kept is None else int(kept)) == kept_ms
